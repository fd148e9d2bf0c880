// What the descriptors of layers on strips of rows share.
#ifndef BM_HOST_STRIPS_H
#define BM_HOST_STRIPS_H

#include "bm_host_packed.h"

// A row comes from any row of the input, so all of those are there; columns are cut as they are.
class StripsDescriptor : public PackedDescriptor {
  public:
    virtual int backward_hidx(int /*out_hidx*/) const override { return 0; }
    virtual int backward_hslice(int /*out_hslice*/) const override { return in(0).shape[2]; }
    virtual bool accepts_larger_tiles() const override { return false; }
};

#endif
