/* SIEVE (Zhang and others, NSDI 2024) for compiled_sieve.py: lines stand in the order in which they came; a hand goes from the oldest to the newest,
   passes those that were met since it came by, and takes the first other one. Places are numbers from 0 to one below the blocks of the cache. */

#include <stdint.h>
#include <stdlib.h>

#define NONE (-1)

typedef struct {
    int64_t newest, oldest, hand;
    int64_t *newer, *older;
    uint8_t *met;
} sieve;

void *sieve_new(uint64_t blocks) {
    sieve *s = malloc(sizeof *s);
    s->newest = s->oldest = s->hand = NONE;
    s->newer = malloc(blocks * sizeof *s->newer);
    s->older = malloc(blocks * sizeof *s->older);
    s->met = malloc(blocks);
    return s;
}

void sieve_free(void *state) {
    sieve *s = state;
    free(s->newer);
    free(s->older);
    free(s->met);
    free(s);
}

void sieve_insert(void *state, uint32_t place, uint64_t line, uint32_t recall) {
    sieve *s = state;
    (void)line;
    (void)recall;
    s->met[place] = 0;
    s->newer[place] = NONE;
    s->older[place] = s->newest;
    if (s->newest == NONE) s->oldest = place;
    else s->newer[s->newest] = place;
    s->newest = place;
}

/* A block that was brought ahead counts from its second meeting on. */
void sieve_hit(void *state, uint32_t place, uint32_t how) {
    if (!(how & 1)) ((sieve *)state)->met[place] = 1;
}

static void leave(sieve *s, int64_t place) {
    int64_t newer = s->newer[place], older = s->older[place];
    if (s->hand == place) s->hand = newer;
    if (newer == NONE) s->newest = older;
    else s->older[newer] = older;
    if (older == NONE) s->oldest = newer;
    else s->newer[older] = newer;
}

int64_t sieve_victim(void *state) {
    sieve *s = state;
    int64_t at = s->hand == NONE ? s->oldest : s->hand;
    while (s->met[at]) {
        s->met[at] = 0;
        at = s->newer[at] == NONE ? s->oldest : s->newer[at];
    }
    s->hand = at;
    leave(s, at);
    return at;
}

void sieve_remove(void *state, uint32_t place) {
    leave(state, place);
}
