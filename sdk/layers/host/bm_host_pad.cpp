#include "bm_host_pad.h"
