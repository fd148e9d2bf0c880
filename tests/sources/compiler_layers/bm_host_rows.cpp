#include "bm_host_rows.h"
