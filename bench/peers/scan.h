/* What the peers of bench/scan.c share: the buffer of lines, and the clock around it. */
#ifndef KAGED_BENCH_PEERS_SCAN_H
#define KAGED_BENCH_PEERS_SCAN_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Serves the command `scan`. parse gets one line at a time, without its newline and with at least
 * 64 bytes behind it that may be read, and returns the id that it found.
 */
int scan_serve(const char *path, long (*parse)(const char *line, unsigned long length));

#ifdef __cplusplus
}
#endif

#endif
