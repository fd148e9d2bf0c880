#include "bm_host_depth_to_space.h"
