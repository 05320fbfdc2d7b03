/*
 * Hosts that somebody is asked about. Where the plan asks, a connection to what is not declared
 * waits here, accepted and not answered, until the loop has decided of its host and port; the same
 * host and port is asked about once. There is a bound to the questions, and to what waits for one.
 */
#include "cage/gate_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define QUESTIONS_MAX 256
#define WAITING_MAX   16 /* for one answer */

enum answer { ANSWER_OPEN, ANSWER_YES, ANSWER_NO };

struct gate_waiting {
    struct gate_waiting *next;
    struct gate_socket *socket; /* that accepted it */
    int fd;
};

struct gate_question {
    struct gate_question *next;
    char host[GATE_HOST_TEXT];
    uint16_t port;
    enum answer answer;
    struct gate_waiting *waiting;
    size_t waiting_count;
};

static struct gate_question *question_find(const struct gate_cage *cage, const char *host,
                                           uint16_t port, size_t *ret_count)
{
    *ret_count = 0;
    for (struct gate_question *at = cage->questions; at != NULL; at = at->next, ++*ret_count)
        if (at->port == port && strcmp(at->host, host) == 0)
            return at;
    return NULL;
}

/* Its name keeps its address from now on: the answer is about both. */
static struct gate_question *gate_ask_question_new(struct gate_cage *cage,
                                                   const struct gate_target *target)
{
    struct gate_question *question = kg_alloc(sizeof(*question));
    snprintf(question->host, sizeof(question->host), "%s", target->host);
    question->port = target->port;
    question->next = cage->questions;
    cage->questions = question;
    if (target->name != NULL)
        gate_name_hold(target->name);
    const struct gate_event event = {
        .kind = GATE_ASKED, .host = question->host, .port = question->port};
    gate_tell(cage, &event);
    return question;
}

void gate_ask_about(struct gate_cage *cage, struct gate_target *target)
{
    size_t count;
    struct gate_question *question = question_find(cage, target->host, target->port, &count);
    if (question == NULL && count < QUESTIONS_MAX)
        question = gate_ask_question_new(cage, target);
    target->declare = target->host;
    if (question == NULL || question->answer == ANSWER_NO) {
        target->denied = question ? "the operator was asked, and declined"
                                  : "the operator was already asked about too many hosts";
    } else if (question->answer == ANSWER_YES) {
        target->trust = gate_trust_of(target->host);
    } else if (question->waiting_count == WAITING_MAX) {
        target->denied = "too many connections wait for the operator's answer";
    } else {
        target->asked = question;
    }
}

void gate_ask_wait(struct gate_question *question, struct gate_socket *socket, int fd)
{
    struct gate_waiting *waiting = kg_alloc(sizeof(*waiting));
    *waiting = (struct gate_waiting){question->waiting, socket, fd};
    question->waiting = waiting;
    question->waiting_count++;
}

void gate_ask_decided(struct gate_cage *cage, const char *host, uint16_t port, bool given)
{
    size_t count;
    struct gate_question *question = question_find(cage, host, port, &count);
    if (question == NULL)
        return;
    question->answer = given ? ANSWER_YES : ANSWER_NO;
    while (question->waiting != NULL) {
        struct gate_waiting *waiting = question->waiting;
        question->waiting = waiting->next;
        gate_admit(waiting->socket, waiting->fd);
        free(waiting);
    }
    question->waiting_count = 0;
}

void gate_ask_end(struct gate_cage *cage)
{
    while (cage->questions != NULL) {
        struct gate_question *question = cage->questions;
        cage->questions = question->next;
        while (question->waiting != NULL) {
            struct gate_waiting *waiting = question->waiting;
            question->waiting = waiting->next;
            close(waiting->fd);
            free(waiting);
        }
        free(question);
    }
}
