#include "bm_host_expand_dims.h"
