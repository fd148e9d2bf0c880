// What the descriptors of layers on strips of rows share.
#ifndef BM_HOST_STRIPS_H
#define BM_HOST_STRIPS_H

#include "bm_host_packed.h"

// Rows of a strip come from other strips, so all of them are there.
class StripsDescriptor : public PackedDescriptor {
  public:
    virtual bool can_split_local_h_w() const override { return false; }
    virtual bool accepts_larger_tiles() const override { return false; }
};

#endif
