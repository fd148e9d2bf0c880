#include "bm_host_slice.h"
