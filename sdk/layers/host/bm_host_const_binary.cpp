#include "bm_host_const_binary.h"

// One instruction reads each element once and writes it to the same place.
bool ConstBinaryDescriptor::can_inplace(DATA_TYPE_T dtype) const { return dtype == DTYPE_FP32; }
