/* SPDX-License-Identifier: Apache-2.0
 * order.pml: the protocol of variables (core/engine/order.h) as a model for
 * spin. Three operations are pushed, in any order, on two variables, with every
 * combination of access modes; spin visits every interleaving of the pushes,
 * the executions and the completions.
 *
 * What is checked: an operation begins only when every conflicting one that was
 * pushed before it has ended; each runs exactly once; nothing waits for ever;
 * readers with no writer between them are let in together; every word is 0 in
 * the end; no token is touched after it was freed. With SHORT_WAY, pushes may
 * also run what is ready without a token. With ERRORS, each operation sees the
 * errors that it would see if all of them ran one after the other.
 *
 * One transition is one atomic access of the code: a compare-and-swap that
 * succeeds (one that fails changes nothing and is tried again), a step under
 * LOCK, the subtraction from a token's counter. Waiting for LOCK is a transition
 * that cannot be taken yet. Memory is sequentially consistent here; that the
 * code's acquire and release suffice is for ThreadSanitizer.
 *
 * run.py checks it, and that each of the faults FAULT_... is found.
 */
#define N_OPS 3
#define N_VARS 2

#define LOCK 1
#define WRITER 2
#define QUEUED 4
#define ERROR 8
#define READER 16

#define NONE 0
#define READ 1
#define UPDATE 2
#define OVERWRITE 3

/* tn__var, tn__token, tn__engine: what the code has. */
byte word[N_VARS];
chan queue[N_VARS] = [N_OPS] of { byte };
byte lacks[N_OPS]; /* tn__token.wait */
bit ready[N_OPS];  /* the token stands in the pool */
byte mode[N_OPS * N_VARS];
bit fails[N_OPS];
bit gate;

/* What only the checks know. */
byte older[N_OPS]; /* set: who was pushed before */
byte pushed;       /* set */
bit began[N_OPS];
bit ended[N_OPS];
bit freed[N_OPS]; /* the token */
bit carries[N_VARS]; /* an error, if all ran in order of the pushes */
bit spoiled[N_OPS];  /* fails, or is not run, then */

#define MODE(op, v) mode[(op) * N_VARS + (v)]
#define SHARE(a, b, v)                        \
  (MODE(a, v) != NONE && MODE(b, v) != NONE && \
   (MODE(a, v) >= UPDATE || MODE(b, v) >= UPDATE))
#define CONFLICT(a, b) (SHARE(a, b, 0) || SHARE(a, b, 1))
#define IN_TURN(op, other) \
  (!(older[op] & (1 << (other))) || !CONFLICT(op, other) || ended[other])

/* The function begins: whatever stands before it and conflicts has ended. */
inline begin(op) {
  assert(!began[op]);
  assert(IN_TURN(op, 0) && IN_TURN(op, 1) && IN_TURN(op, 2));
  began[op] = 1
}

/* The gate is held: what would happen if everything ran here, in this order. */
inline foresee(op) {
  older[op] = pushed;
  pushed = pushed | (1 << op);
  spoiled[op] = fails[op] ||
                (carries[0] && (MODE(op, 0) == READ || MODE(op, 0) == UPDATE)) ||
                (carries[1] && (MODE(op, 1) == READ || MODE(op, 1) == UPDATE));
  if
  :: MODE(op, 0) >= UPDATE -> carries[0] = spoiled[op]
  :: else
  fi;
  if
  :: MODE(op, 1) >= UPDATE -> carries[1] = spoiled[op]
  :: else
  fi
}

#ifdef FAULT_LOCK_IGNORED_BY_RELEASE
#define RELEASE_MAY_GO true
#else
#define RELEASE_MAY_GO ((word[v] & LOCK) == 0)
#endif

#ifdef FAULT_LOCK_IGNORED_BY_ERRORS
#define ERROR_MAY_GO true
#else
#define ERROR_MAY_GO ((word[v] & LOCK) == 0)
#endif

#ifdef FAULT_QUEUE_JUMPED
#define IN_THE_WAY_OF_READER WRITER
#define IN_THE_WAY_OF_WRITER(w) ((w) & (255 - ERROR - QUEUED))
#else
#define IN_THE_WAY_OF_READER (WRITER | QUEUED)
#define IN_THE_WAY_OF_WRITER(w) ((w) & (255 - ERROR))
#endif

/* tn__var_acquire(): sets `granted`, or joins the queue. The gate is held. */
inline tn__var_acquire(op, v) {
  if
  :: atomic { /* compare-and-swap: a reader's grant */
       (word[v] & LOCK) == 0 && MODE(op, v) == READ &&
       (word[v] & IN_THE_WAY_OF_READER) == 0 ->
       word[v] = word[v] + READER;
       n = n + 1
     }
  :: atomic { /* compare-and-swap: the writer's grant */
       (word[v] & LOCK) == 0 && MODE(op, v) >= UPDATE &&
       IN_THE_WAY_OF_WRITER(word[v]) == 0 ->
       word[v] = word[v] | WRITER;
       n = n + 1
     }
  :: atomic { /* compare-and-swap: LOCK, to join */
       (word[v] & LOCK) == 0 &&
       ((MODE(op, v) == READ && (word[v] & IN_THE_WAY_OF_READER) != 0) ||
        (MODE(op, v) >= UPDATE && IN_THE_WAY_OF_WRITER(word[v]) != 0)) ->
       seen = word[v];
       word[v] = word[v] | LOCK
     };
     queue[v]!op; /* under LOCK */
     atomic { /* a plain store that ends LOCK */
       word[v] = seen | QUEUED;
       seen = 0
     }
  fi
}

/* tn__token_granted(): the last grant makes the token ready. */
inline tn__token_granted(op, count) {
  atomic {
    assert(!freed[op] && lacks[op] >= (count));
    lacks[op] = lacks[op] - (count);
    if
    :: lacks[op] == 0 ->
       assert(!ready[op]);
       ready[op] = 1
    :: else
    fi
  }
}

/* Takes the head of the queue out; `n` counts the readers. */
inline take_head(v) {
  queue[v]?other;
  let_in = let_in | (1 << other);
  if
  :: MODE(other, v) == READ -> n = n + 1
  :: else
  fi
}

/* The head of the queue, if it is there, reads. */
#define HEAD_READS(v)                   \
  (queue[v]?[0] && MODE(0, v) == READ || \
   queue[v]?[1] && MODE(1, v) == READ || \
   queue[v]?[2] && MODE(2, v) == READ)

#ifdef FAULT_ONE_READER_LET_IN
#define MORE_READERS(v) false
#else
#define MORE_READERS(v) HEAD_READS(v)
#endif

/* tn__var_release(): `let_in` becomes the set of those who are granted now. */
inline tn__var_release(op, v) {
  if
  :: atomic { /* compare-and-swap: one reader of several, or nobody waits */
       RELEASE_MAY_GO && MODE(op, v) == READ &&
       (word[v] >= 2 * READER || (word[v] & QUEUED) == 0) ->
       assert(word[v] >= READER);
       word[v] = word[v] - READER
     }
  :: atomic { /* compare-and-swap: the writer, and nobody waits */
       RELEASE_MAY_GO && MODE(op, v) >= UPDATE && (word[v] & QUEUED) == 0 ->
       assert(word[v] & WRITER);
       word[v] = word[v] & (255 - WRITER)
     }
  :: atomic { /* compare-and-swap: LOCK, to hand over */
       RELEASE_MAY_GO && (word[v] & QUEUED) != 0 &&
       (MODE(op, v) >= UPDATE || word[v] < 2 * READER) ->
       seen = word[v] & ERROR;
       word[v] = word[v] | LOCK
     };
     d_step { /* under LOCK */
       take_head(v);
       do
       :: n > 0 && MORE_READERS(v) -> take_head(v)
       :: else -> break
       od;
       other = 0
     };
     atomic { /* a plain store that ends LOCK */
       assert(n == 0 || !HEAD_READS(v)); /* readers are let in together */
       word[v] = seen | (n > 0 -> n * READER : WRITER) |
                 (len(queue[v]) > 0 -> QUEUED : 0);
       n = 0;
       seen = 0
     };
     do /* outside of LOCK: tn__token_granted() for each */
     :: let_in & 1 -> tn__token_granted(0, 1); let_in = let_in & 6
     :: !(let_in & 1) && (let_in & 2) ->
        tn__token_granted(1, 1); let_in = let_in & 5
     :: !(let_in & 3) && (let_in & 4) -> tn__token_granted(2, 1); let_in = 0
     :: let_in == 0 -> break
     od
  fi
}

/* tn__error_put(): the bit in the word, by compare-and-swap. */
inline tn__error_put(v, bad) {
  atomic {
    ERROR_MAY_GO ->
    word[v] = (bad -> word[v] | ERROR : word[v] & (255 - ERROR))
  }
}

/* Whether an error keeps the function from running: tn__token_execute(). */
#define SPOILT(op, v) \
  ((word[v] & ERROR) != 0 && (MODE(op, v) == READ || MODE(op, v) == UPDATE))

/* A thread that takes a ready token: tn__token_execute() and, at the end of the
 * function, tn__token_complete(). */
proctype worker(byte op) {
  byte v, n, seen, other, let_in;
  bit bad;

  atomic {
    ready[op] || ended[op] ->
    if
    :: !ready[op] -> goto over /* it went the short way */
    :: else
    fi;
    ready[op] = 0;
    bad = fails[op] || SPOILT(op, 0) || SPOILT(op, 1);
    assert(bad == spoiled[op]);
    begin(op)
  };
  ended[op] = 1;
#ifdef ERRORS
  for (v : 0 .. N_VARS - 1) {
    if
    :: MODE(op, v) >= UPDATE && ((word[v] & ERROR) != 0) != bad ->
       tn__error_put(v, bad)
    :: else
    fi
  }
#endif
  for (v : 0 .. N_VARS - 1) {
    if
    :: MODE(op, v) != NONE -> tn__var_release(op, v)
    :: else
    fi
  }
  atomic {
    freed[op] = 1;
    v = 0;
    bad = 0
  };
over:
  skip
}

#define READABLE(v) ((word[v] & (LOCK | WRITER | QUEUED | ERROR)) == 0)
#define WRITABLE(v) (word[v] == 0)
#define AT_ONCE(op, v)                                \
  (MODE(op, v) == NONE || MODE(op, v) == READ && READABLE(v) || \
   MODE(op, v) >= UPDATE && WRITABLE(v))

#ifdef FAULT_COUNTED_AS_IT_GOES
#define EXTRA 0
#else
#define EXTRA 1
#endif

/* A thread that pushes: tn__push(), or the short way between tn__enter() and
 * tn__leave(). */
proctype pusher(byte op) {
  byte v, n, seen;

  atomic { /* tn__gate_take() */
#ifndef FAULT_GATE_LEFT_OPEN
    gate == 0 ->
    gate = 1;
#endif
    foresee(op);
    lacks[op] = EXTRA + (MODE(op, 0) != NONE) + (MODE(op, 1) != NONE)
  };
  if
#ifdef SHORT_WAY
  :: AT_ONCE(op, 0) ->
     if
     :: atomic { AT_ONCE(op, 1) -> begin(op) };
        ended[op] = 1;
#ifdef ERRORS
        for (v : 0 .. N_VARS - 1) { /* tn__var_fail() */
          if
          :: MODE(op, v) >= UPDATE && fails[op] -> tn__error_put(v, 1)
          :: else
          fi
        }
#endif
        goto leave
     :: true
     fi
#endif
  :: true
  fi;
  for (v : 0 .. N_VARS - 1) {
    if
    :: MODE(op, v) != NONE ->
       tn__var_acquire(op, v)
#ifdef FAULT_COUNTED_AS_IT_GOES
       ;
       if
       :: n > 0 -> tn__token_granted(op, n); n = 0
       :: else
       fi
#endif
    :: else
    fi
  }
#ifndef FAULT_COUNTED_AS_IT_GOES
  tn__token_granted(op, n + 1);
#endif
leave:
  atomic { /* tn__gate_give() */
    v = 0;
    n = 0;
    gate = 0
  }
}

/* Who is pushed first is open, so each set of three kinds is tried once. With
 * ERRORS the first of them fails, and there is something that it writes. */
#define KIND(op) (MODE(op, 0) * 4 + MODE(op, 1))
#ifdef ERRORS
#define MOST OVERWRITE
#define WANTED                                              \
  (KIND(1) <= KIND(2) && KIND(1) > 0 && MODE(0, 0) == OVERWRITE && \
   MODE(0, 1) != UPDATE)
#else
#define MOST UPDATE
#define WANTED (KIND(0) <= KIND(1) && KIND(1) <= KIND(2))
#endif

init {
  byte i, least;

  atomic {
#ifdef ERRORS
    fails[0] = 1;
#endif
    for (i : 0 .. N_OPS - 1) {
      select(least : NONE .. MOST);
      MODE(i, 0) = least;
      select(least : NONE .. MOST);
      MODE(i, 1) = least
    }
    if
    :: !WANTED -> goto counted_elsewhere
    :: else
    fi;
    i = 0;
    least = 0;
    run worker(0); run worker(1); run worker(2);
    run pusher(0); run pusher(1); run pusher(2)
  };
  atomic {
    began[0] && began[1] && began[2] && _nr_pr == 1 ->
    for (i : 0 .. N_VARS - 1) {
      assert(empty(queue[i]));
      assert(word[i] == (carries[i] -> ERROR : 0))
    }
  };
counted_elsewhere:
  skip
}
