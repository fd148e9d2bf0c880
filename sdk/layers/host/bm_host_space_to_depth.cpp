#include "bm_host_space_to_depth.h"
