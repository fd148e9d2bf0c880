/* Where the toolkit is whose Python processes this library starts. */
#ifndef TPULAYER_TOOLKIT_HOME_H_
#define TPULAYER_TOOLKIT_HOME_H_

/* python: an interpreter; path: the folder of the packages, may be "". Both lie in `texts`, which is to be freed, or
 * in the environment. */
typedef struct {
    const char *python, *path;
    char *texts;
} toolkit_home;

/* 0, or an errno value after a line that says what to do. */
int toolkit_home_find(toolkit_home *home);

#endif
