#include "bm_host_resize.h"
