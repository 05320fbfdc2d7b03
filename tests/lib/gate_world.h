/*
 * The world outside of a cage, for tests of the gate: a server in a process of its own, and where
 * the kernel allows it a network in which the addresses of the documentation ranges lead to that
 * server, with names of our choosing.
 */
#ifndef KAGED_GATE_WORLD_H
#define KAGED_GATE_WORLD_H

#include "base/base.h"

struct gate_world {
    const char *missing;    /* why there is no such network, or NULL */
    pid_t server;           /* owned */
    uint16_t port;          /* of the server, on 127.0.0.1 and ::1 */
    uint16_t port_6;        /* on ::1 only */
    uint16_t port_stuck;    /* on 127.0.0.1; connecting to it never ends */
    uint16_t port_redirect; /* where 198.18.0.0/15 is redirected to, v4 and v6 */
    int reports;            /* owned; what the server saw, a line each */
    char folder[64];
};

/*
 * Names in that network; every TCP connection to the documentation ranges gets to the server:
 *   global.test 203.0.113.5  six.test 2001:db8::5  private.test 10.99.0.5  link.test
 * 169.254.169.254 loop.test 127.0.0.1  loop6.test ::1  mapped.test ::ffff:127.0.0.1  own.test
 * 198.51.100.7 mixed.test 127.0.0.1 203.0.113.5  patient.test 192.0.2.1 203.0.113.5 (the first is
 * silent) Any other name is asked of 127.0.0.1, where nobody answers unless a test does.
 *
 * The server reads one line and does what it says:
 *   echo        what comes goes back, to the end
 *   source N    sends N bytes of the pattern and ends
 *   sink        reads to the end, sends the count, ends
 *   farewell    sends "bye", ends its side, reads to the end, reports the count
 *   watch       sends "ok", reads; reports how it ended: "eof" or "reset"
 *   close, reset, hold
 */
void gate_world_open(struct gate_world *world);
void gate_world_close(struct gate_world *world);
/* The next line that the server reports, without its newline; "" if none comes. */
void gate_world_report(struct gate_world *world, char ret_line[64]);
uint8_t gate_world_pattern(uint64_t at);

#endif
