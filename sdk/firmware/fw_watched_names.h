/* Read before the first line of watched code (user_layers/toolchain/watched.py): functions of the C library under the
 * names of their twins in fw_native_watch_libc.c. It declares none, so a kernel may have its own.
 */
#pragma redefine_extname memcpy fw_watched_memcpy
#pragma redefine_extname memmove fw_watched_memmove
#pragma redefine_extname memset fw_watched_memset
#pragma redefine_extname memcmp fw_watched_memcmp
#pragma redefine_extname memchr fw_watched_memchr
#pragma redefine_extname strlen fw_watched_strlen
#pragma redefine_extname strnlen fw_watched_strnlen
#pragma redefine_extname strcmp fw_watched_strcmp
#pragma redefine_extname strncmp fw_watched_strncmp
#pragma redefine_extname strcpy fw_watched_strcpy
#pragma redefine_extname strncpy fw_watched_strncpy
#pragma redefine_extname strcat fw_watched_strcat
#pragma redefine_extname strncat fw_watched_strncat
#pragma redefine_extname strchr fw_watched_strchr
#pragma redefine_extname strrchr fw_watched_strrchr
#pragma redefine_extname strstr fw_watched_strstr
#pragma redefine_extname strdup fw_watched_strdup
#pragma redefine_extname strndup fw_watched_strndup
#pragma redefine_extname qsort fw_watched_qsort
#pragma redefine_extname vsnprintf fw_watched_vsnprintf
#pragma redefine_extname snprintf fw_watched_snprintf
#pragma redefine_extname sprintf fw_watched_sprintf
