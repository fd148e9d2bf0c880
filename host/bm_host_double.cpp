#include "bm_host_double.h"

// One instruction reads each element once and writes it to the same place.
bool DoubleDescriptor::can_inplace(DATA_TYPE_T dtype) const { return dtype == DTYPE_FP32; }
