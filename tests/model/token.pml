/* SPDX-License-Identifier: Apache-2.0
 * token.pml: the life of one asynchronous job of a host
 * (core/runtime/host_token.c) as a model for spin. A worker calls `begin`,
 * which may complete the job, fail, retain the token for another thread, or do
 * nothing. That thread may complete the job, twice or never, and release the
 * token, or lose it. At any time another thread may shut the runtime down. spin
 * visits every interleaving.
 *
 * Checked properties: the engine gets exactly one completion. No token is used
 * after it was freed, or after its runtime has ended. A job whose token was
 * released is complete; after a shutdown every job is complete. If no thread
 * has lost the token, its memory is freed and the runtime is released once.
 *
 * One transition is one atomic access of the code, or its steps under the lock.
 * run.py checks the model, and that it finds each of the faults FAULT_...
 */
#define WAITING 0
#define BEGUN 1
#define OVER 2
#define CANCELLED 3

byte state;
bit listed;
bit closed;
byte n_owners;
byte n_holds = 1;
byte n_keeps = 1; /* owners of the runtime, without those of the host */

/* State of the checks only. */
bit returned;  /* `begin` */
bit completed; /* in the engine */
bit freed;
bit released; /* the runtime, by the token */
bit lost;     /* the host has forgotten the token */
bit swept;    /* the shutdown has returned */

inline use() {
  assert(!freed && !released)
}

inline unhold() {
  atomic {
    use();
    assert(n_holds > 0);
    n_holds--;
    if
    :: n_holds == 0 -> freed = 1
    :: else
    fi
  }
}

/* Ends one owner of the runtime. */
inline release_runtime() {
  atomic {
    assert(!released);
    n_keeps--;
    released = (n_keeps == 0)
  }
}

/* The engine's completion, and end_token(), which it calls. */
inline complete_in_engine() {
  atomic {
    assert(!completed);
    completed = 1
  };
  unhold();
  release_runtime()
}

/* Sets mine for one of the threads that call it. */
inline claim(to) {
#ifdef FAULT_CLAIMED_IN_TWO_STEPS
  use();
  mine = (state == BEGUN);
  if
  :: mine -> state = to
  :: else
  fi;
#else
  atomic {
    use();
    mine = (state == BEGUN);
    if
    :: mine -> state = to
    :: else
    fi
  };
#endif
  atomic {
    if
    :: mine ->
       use();
       assert(listed);
       listed = 0
    :: else
    fi
  }
}

/* tn__host_token_release() */
inline remove_owner() {
#ifdef FAULT_RUNTIME_RELEASED_BEFORE_TOKEN
  release_runtime();
#endif
  atomic {
    use();
    n_owners--;
    final = (n_owners == 0)
  };
  if
  :: final ->
#ifndef FAULT_LAST_OWNER_COMPLETES_NOTHING
     claim(OVER);
     if
     :: mine -> complete_in_engine()
     :: else
     fi;
#endif
     unhold()
  :: else
  fi;
#ifndef FAULT_RUNTIME_RELEASED_BEFORE_TOKEN
  release_runtime()
#endif
}

proctype completer() {
  bit mine, final;

  do
  :: claim(OVER);
     if
     :: mine -> complete_in_engine()
     :: else /* TN_INVALID or TN_BUSY */
     fi
  :: break
  od;
  if
  :: lost = 1; goto forgotten
  :: true
  fi;
  remove_owner();
forgotten:
  skip
}

inline hold_for_begin() {
  atomic {
    use();
    n_owners = 1;
    n_keeps++;
    n_holds++
  }
}

proctype worker() {
  bit mine, final, open, failed;

#ifndef FAULT_LISTED_BEFORE_HELD
  hold_for_begin();
#endif
  atomic { /* enter_list(), under the lock */
    use();
#ifdef FAULT_CLOSED_RUNTIME_BEGINS
    open = 1;
#else
    open = !closed;
#endif
    if
    :: open ->
       state = BEGUN;
       listed = 1
    :: else
    fi
  };
#ifdef FAULT_LISTED_BEFORE_HELD
  hold_for_begin();
#endif
  if
  :: !open ->
     remove_owner();
     complete_in_engine();
     goto over
  :: else
  fi;
  if /* the host's function */
  :: atomic {
       use();
       n_owners++;
       n_keeps++
     };
     run completer();
     if
     :: failed = 1
     :: true
     fi
  :: claim(OVER);
     if
     :: mine -> complete_in_engine()
     :: else
     fi
  :: failed = 1
  :: true
  fi;
  if
  :: failed ->
     claim(OVER);
     failed = mine
  :: else
  fi;
  remove_owner();
  if
  :: failed -> complete_in_engine()
  :: else
  fi;
over:
  returned = 1
}

proctype shutdown() {
  bit mine;

  closed = 1; /* under the lock */
  atomic { /* take_begun(), under the lock */
    mine = (listed && state == BEGUN);
    if
    :: mine ->
       use();
       state = CANCELLED;
       listed = 0
    :: else
    fi
  };
  if
  :: mine -> complete_in_engine()
  :: else
  fi;
  completed && returned -> swept = 1
}

init {
  bit with_shutdown;

  atomic {
    run worker();
    if
    :: run shutdown(); with_shutdown = 1
    :: true
    fi
  };
  atomic {
    _nr_pr == 1 ->
    assert(returned && (completed || (lost && !with_shutdown)));
    assert(!listed || !completed);
    assert(lost || (freed && released && n_holds == 0))
  }
}
