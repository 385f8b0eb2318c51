/* SPDX-License-Identifier: Apache-2.0
 * order.pml: the protocol of variables (core/variables/variable.h) as a model for
 * spin. Three operations are pushed, in any order, on two variables, with every
 * combination of access modes. spin visits every interleaving of the pushes,
 * the executions and the completions.
 *
 * Checked properties: an operation begins only when every conflicting one that
 * was pushed before it has ended. Each operation runs exactly once. No
 * operation waits for ever. Readers without a writer between them are granted
 * together. Every word is 0 in the end. No token is used after it was freed.
 * With FAST_PATH, pushes may also run ready operations without a token. With
 * ERRORS, each operation sees the errors of a serial run. With WAITS, one
 * operation is a wait for one variable, which may give up at any time.
 *
 * One transition is one atomic access of the code: a compare-and-swap that
 * succeeds (a failed one changes nothing and is repeated), a step under LOCK,
 * or the subtraction from a token's counter. A wait for LOCK is a transition
 * that is not enabled yet. Memory is sequentially consistent here;
 * ThreadSanitizer checks that the code's acquire and release suffice.
 *
 * run.py checks the model, and that it finds each of the faults FAULT_...
 */
#define N_OPS 3
#define N_VARS 2

#define LOCK 1
#define WRITER 2
#define QUEUED 4
#define ERROR 8
#define LEAVING 16
#define READER 32

#define NONE 0
#define READ 1
#define UPDATE 2
#define OVERWRITE 3

/* State of the code: tn__var, tn__token, tn__engine. */
byte word[N_VARS];
byte n_queued[N_VARS];
byte n_along[N_VARS]; /* of them, at the head: taken along by the writer */
byte queue[N_VARS * N_OPS]; /* the head first */
byte lacks[N_OPS]; /* tn__token.wait */
bit ready[N_OPS];  /* the token is in the pool */
byte mode[N_OPS * N_VARS];
bit fails[N_OPS];
bit gate;

/* State of the checks only. */
byte older[N_OPS]; /* set: the operations pushed before */
byte pushed;       /* set */
bit began[N_OPS];
bit ended[N_OPS];
bit freed[N_OPS]; /* the token */
bit carries[N_VARS]; /* an error in a serial run, in push order */
bit spoiled[N_OPS];  /* fails, or does not run, in that serial run */

#ifdef WAITS
#define MAY_LEAVE(op) ((op) == 2)
#else
#define MAY_LEAVE(op) false
#endif

#define MODE(op, v) mode[(op) * N_VARS + (v)]
/* The operation reads the variable, so that an error on it counts. */
#define MINDS(op, v) (MODE(op, v) == READ || MODE(op, v) == UPDATE)
#define SHARE(a, b, v)                        \
  (MODE(a, v) != NONE && MODE(b, v) != NONE && \
   (MODE(a, v) >= UPDATE || MODE(b, v) >= UPDATE))
#define CONFLICT(a, b) (SHARE(a, b, 0) || SHARE(a, b, 1))
#define IN_TURN(op, other) \
  (!(older[op] & (1 << (other))) || !CONFLICT(op, other) || ended[other])

/* The function begins: all conflicting operations before it have ended. */
inline begin(op) {
  assert(!began[op]);
  assert(IN_TURN(op, 0) && IN_TURN(op, 1) && IN_TURN(op, 2));
  began[op] = 1
}

/* Predicts the result of a serial run in this order. The gate is held. */
inline foresee(op) {
  older[op] = pushed;
  pushed = pushed | (1 << op);
  spoiled[op] = fails[op] || (carries[0] && MINDS(op, 0)) ||
                (carries[1] && MINDS(op, 1));
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
     d_step { /* append_claim() */
       queue[v * N_OPS + n_queued[v]] = op;
       n_queued[v] = n_queued[v] + 1
     };
     atomic { /* a plain store that ends LOCK */
       word[v] = seen | QUEUED | (MAY_LEAVE(op) -> LEAVING : 0);
       seen = 0
     }
  fi
}

/* tn__token_granted(), and the end of tn__token_grant(): the last grant makes
 * the token ready. */
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

#define HEAD(v) queue[(v) * N_OPS]

/* Removes the claim at `place` from the queue. */
inline take_out(v, place) {
  if
  :: place == 0 -> HEAD(v) = queue[(v) * N_OPS + 1]
  :: else
  fi;
  if
  :: place <= 1 -> queue[(v) * N_OPS + 1] = queue[(v) * N_OPS + 2]
  :: else
  fi;
  queue[(v) * N_OPS + 2] = 0;
  n_queued[v] = n_queued[v] - 1
}

/* can_grant() of variable.c for the head of the queue. */
#define HEAD_ADMITTED(v)                              \
  (n_queued[v] > 0 && (seen & WRITER) == 0 && \
   (MODE(HEAD(v), v) == READ || seen < READER))

#ifdef FAULT_LEAVING_IGNORED
#define MAY_TAKE_ALONG true
#else
#define MAY_TAKE_ALONG ((seen & LEAVING) == 0)
#endif

/* take_along() of variable.c. The checks do not depend on the head: a writer
 * may take the queue along, or not. */
inline take_along(v) {
  if
  :: (seen & WRITER) != 0 && n_along[v] == 0 && MAY_TAKE_ALONG ->
     n_along[v] = n_queued[v]
  :: true
  fi
}

#ifdef FAULT_ONE_READER_LET_IN
#define MORE_MAY_FOLLOW (let_in == 0)
#else
#define MORE_MAY_FOLLOW true
#endif

/* hand_over() of variable.c: `let_in` becomes the set of granted operations.
 * LOCK is held, and `seen` is the word that it will store. */
inline hand_over(v) {
  atomic {
    do
    :: HEAD_ADMITTED(v) && MORE_MAY_FOLLOW ->
       other = HEAD(v);
       take_out(v, 0);
       let_in = let_in | (1 << other);
       seen = (MODE(other, v) == READ -> seen + READER : seen | WRITER)
    :: else -> break
    od;
    assert(!HEAD_ADMITTED(v)); /* readers are let in together */
    if
    :: let_in != 0 && n_queued[v] > 0 -> take_along(v)
    :: else
    fi;
    if
    :: n_queued[v] == n_along[v] -> seen = seen & (255 - QUEUED - LEAVING)
    :: else
    fi;
    other = 0
  };
  atomic { /* unlock_var(): a plain store that ends LOCK */
    word[v] = seen;
    seen = 0
  }
}

/* Outside of LOCK: release_grants() of token.c, grant_claims() of wait.c. */
inline grant_claims() {
  do
  :: let_in & 1 -> tn__token_granted(0, 1); let_in = let_in & 6
  :: !(let_in & 1) && (let_in & 2) ->
     tn__token_granted(1, 1); let_in = let_in & 5
  :: !(let_in & 3) && (let_in & 4) -> tn__token_granted(2, 1); let_in = 0
  :: let_in == 0 -> break
  od
}

#ifdef FAULT_HANDED_ON_TO_READER
#define HEAD_WRITES(v) true
#else
#define HEAD_WRITES(v) (MODE(HEAD(v), v) >= UPDATE)
#endif

/* tn__var_release() */
inline tn__var_release(op, v) {
  if
  :: d_step { /* hand_on(): from writer to writer, the word stays as it is */
       MODE(op, v) >= UPDATE && n_along[v] > 0 && HEAD_WRITES(v) ->
       let_in = 1 << HEAD(v);
       take_out(v, 0);
       n_along[v] = n_along[v] - 1
     };
     grant_claims()
  :: atomic { /* compare-and-swap: one reader of several, or an empty queue */
       RELEASE_MAY_GO && MODE(op, v) == READ &&
       (word[v] >= 2 * READER || (word[v] & QUEUED) == 0) ->
       assert(word[v] >= READER);
       word[v] = word[v] - READER
     }
  :: atomic { /* compare-and-swap: the writer, with an empty queue */
       RELEASE_MAY_GO && MODE(op, v) >= UPDATE && (word[v] & QUEUED) == 0 &&
       n_along[v] == 0 ->
       assert(word[v] & WRITER);
       word[v] = word[v] & (255 - WRITER)
     }
  :: atomic { /* compare-and-swap: LOCK, to hand over */
       RELEASE_MAY_GO &&
       (MODE(op, v) == READ && (word[v] & QUEUED) != 0 &&
            word[v] < 2 * READER ||
        MODE(op, v) >= UPDATE &&
            (n_along[v] == 0 && (word[v] & QUEUED) != 0 ||
             n_along[v] > 0 && MODE(HEAD(v), v) == READ)) ->
       seen = (MODE(op, v) == READ -> word[v] - READER
                                   : word[v] & (255 - WRITER) |
                                         (n_along[v] > 0 -> QUEUED : 0));
       n_along[v] = 0; /* return_queue(): it is at the head already */
       word[v] = word[v] | LOCK
     };
     hand_over(v);
     grant_claims()
  fi
}

#ifdef WAITS
/* tn__var_cancel(): sets `bad` if the claim is no longer in the queue. */
inline tn__var_cancel(op, v) {
  atomic { /* lock_var() */
    (word[v] & LOCK) == 0 ->
    seen = word[v];
    word[v] = word[v] | LOCK
  };
  d_step { /* remove_claim() */
    do
    :: other < n_queued[v] && queue[v * N_OPS + other] != op ->
       other = other + 1
    :: else -> break
    od;
    if
    :: other < n_queued[v] ->
       assert(other >= n_along[v]); /* it can be reached */
       take_out(v, other);
       began[op] = 1; /* no operation waits for it from here on */
       ended[op] = 1
    :: else -> bad = 1
    fi;
    other = 0
  };
#ifdef FAULT_CANCEL_HANDS_NOTHING_OVER
  atomic {
    word[v] = (n_queued[v] == n_along[v] -> seen & (255 - QUEUED - LEAVING)
                                         : seen);
    assert(bad || !HEAD_ADMITTED(v));
    seen = 0
  }
#else
  if
  :: !bad -> hand_over(v)
  :: else ->
     atomic {
       word[v] = seen;
       seen = 0
     }
  fi;
  grant_claims()
#endif
}
#endif

/* tn__error_put(): tn__var_mark() of the bit, a compare-and-swap. */
inline tn__error_put(v, bad) {
  atomic {
    ERROR_MAY_GO ->
    word[v] = (bad -> word[v] | ERROR : word[v] & (255 - ERROR))
  }
}

/* cause_of() of token.c: true if an error keeps the function from running. */
#define SPOILT(op, v) \
  ((word[v] & ERROR) != 0 && (MODE(op, v) == READ || MODE(op, v) == UPDATE))

/* A thread that takes a ready token, tn__token_execute(): tn__token_call() with
 * the errors that it leaves on variables, then the release of grants,
 * release_grants(). */
proctype worker(byte op) {
  byte v, n, seen, other, let_in;
  bit bad;

  atomic {
    ready[op] || ended[op] ->
    if
    :: !ready[op] -> goto over /* it took the fast path */
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

/* A thread that pushes: pooled_push() with tn__token_acquire(), or
 * try_push_fast() between tn__gate_enter() and tn__gate_leave(). */
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
#ifdef FAST_PATH
  :: AT_ONCE(op, 0) ->
     if
     :: atomic { AT_ONCE(op, 1) -> begin(op) };
        ended[op] = 1;
#ifdef ERRORS
        for (v : 0 .. N_VARS - 1) { /* fail_without_grants() of push.c */
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

#ifdef WAITS
/* tn__wait(): wait_granted(), await_grant(). Its token needs one grant, so it
 * needs no extra count. In its turn it runs check_var(). */
proctype waiter(byte op) {
  byte v, n, seen, other, let_in;
  bit bad;

  atomic { /* tn__gate_borrow() */
    gate == 0 ->
    gate = 1;
    foresee(op);
    lacks[op] = 1
  };
  tn__var_acquire(op, v);
  gate = 0; /* tn__gate_return() */
  if
  :: n == 0 ->
     if
     :: ready[op]
     :: tn__var_cancel(op, v); /* the time is up */
        if
#ifdef FAULT_CANCEL_FORGETS_GRANT
        :: true -> freed[op] = 1; goto over
#else
        :: !bad -> freed[op] = 1; goto over
        :: else -> ready[op] /* another thread is about to grant it */
#endif
        fi
     fi
  :: else
  fi;
  atomic {
    begin(op);
    ready[op] = 0;
    ended[op] = 1
  };
  tn__var_release(op, v);
  freed[op] = 1;
over:
  atomic {
    n = 0;
    bad = 0
  }
}
#endif

/* The order of the pushes is open, so each set of three kinds is tried once.
 * With ERRORS the first of them fails, and overwrites one variable or both. */
#define KIND(op) (MODE(op, 0) * 4 + MODE(op, 1))
#ifdef ERRORS
#define MOST OVERWRITE
#define WANTED                                              \
  (KIND(1) <= KIND(2) && KIND(1) > 0 && MODE(0, 0) == OVERWRITE && \
   (MODE(0, 1) == NONE || MODE(0, 1) == OVERWRITE))
#elif defined(WAITS)
#define MOST UPDATE
#define WANTED                                          \
  (KIND(0) <= KIND(1) && KIND(0) > 0 && MODE(2, 0) != NONE && \
   MODE(2, 1) == NONE)
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
    run worker(0); run worker(1);
    run pusher(0); run pusher(1);
#ifdef WAITS
    run waiter(2)
#else
    run worker(2);
    run pusher(2)
#endif
  };
  atomic {
    began[0] && began[1] && began[2] && _nr_pr == 1 ->
    for (i : 0 .. N_VARS - 1) {
      assert(n_queued[i] == 0);
      assert(word[i] == (carries[i] -> ERROR : 0))
    }
  };
counted_elsewhere:
  skip
}
