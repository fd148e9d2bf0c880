#include "bm_host_cast.h"
