/* Started by root, a test program runs all of itself a second time as an ordinary user. */
#ifndef KAGED_TEST_CAGE_AGAIN_H
#define KAGED_TEST_CAGE_AGAIN_H

/* Fails the test if that run fails; does nothing unless we are root. */
void again_as_ordinary_user(void);

#endif
