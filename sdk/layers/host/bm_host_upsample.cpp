#include "bm_host_upsample.h"
