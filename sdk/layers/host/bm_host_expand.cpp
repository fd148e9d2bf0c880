#include "bm_host_expand.h"
