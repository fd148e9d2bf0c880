#include "bm_host_wrong.h"
