#include "bm_host_copy.h"
