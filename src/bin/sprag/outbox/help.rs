//! What comes out of `outbox`, as its help tells it.

/// The end of every help of a verb that only looks.
macro_rules! looks {
    ($said:literal, $four:literal) => {
        concat!(
            $said,
            "\n\nExit codes:\n  0  printed\n  2  usage\n  4  there is no such file",
            $four,
            "\n  5  a process that writes to the file was started anew meanwhile; call again\
             \n  6  not a store, a newer format, or corrupt\
             \n  7  an I/O error, also of stdout (| head); or read-only"
        )
    };
}

/// The end of every help of a verb that writes: what 0, 2, 3 and 4 mean, and what was not done, and the method that does the same.
macro_rules! writes {
    ($said:literal, $zero:literal, $two:literal, $three:literal, $four:literal, $none:literal, $method:literal) => {
        concat!(
            $said,
            "\n\nExit codes:\n  0  ",
            $zero,
            "\n  2  usage",
            $two,
            $three,
            "\n  4  there is no such file",
            $four,
            "\n  5  another process has the file open; it can do the same: ",
            $method,
            "\n  6  not a store, a newer format, or corrupt\n  7  no room, an I/O error, or read-only: ",
            $none,
            "\n  8  the outcome is not known; call again"
        )
    };
}

/// The same of the verbs that answer a claim.
macro_rules! answers {
    ($said:literal, $zero:literal, $two:literal, $method:literal) => {
        writes!(
            $said,
            $zero,
            $two,
            "\n  3  stale: somebody else has claimed the message since, or it is gone; nothing was changed",
            " or queue",
            "nothing was changed",
            $method
        )
    };
}

pub const OUTBOX: &str = "\
A message is delivered at least once, until it is acknowledged, dead or discarded: whoever delivers it gives its effect id to the
far end, which knows a repeat by it. A claim ends with its lease; an answer that comes later counts as long as nobody else
has claimed the message, and is stale (3) then.

The verbs that write need the file for themselves: while a service has it open they exit 5. The service has the same verbs as
methods of its store, and its own workers. list, show, dead and watch work beside it.

In texts a payload stands without the characters that a terminal would obey: in JSON as their numbers (\\u009b), so that it means
the same; that of a bincode queue is base64. One that is not JSON though its queue says so is {\"base64\":..}. A key that is not all
printable ASCII is hex: and two digits a byte.

Exit codes:
  0  done; the word is on stdout
  2  usage, an invalid argument, or something too large
  3  stale, a remembered key belongs to another message, or replay refused some
  4  there is no such file, queue or message
  5  another process has the file open; list, show, dead and watch work nevertheless
  6  not a store, a newer format, corrupt, or another kind of queue
  7  no room, an I/O error, or read-only
  8  the outcome is not known; call again";

pub const ENQUEUE: &str = writes!(
    "\
Words on stdout: enqueued id=.., repeat id=.. first_at=.. (the same was done before under --once; nothing was enqueued). With --json:
  {\"outcome\":..,\"id\":..}, for repeat also \"first_at\":..

Once: a remembered key belongs to the queue, the payload and everything that is said of the message here; another of these under the
same SCOPE/KEY is refused (3, mismatch). --keep is not part of it. A repeat answers the first id also if that message is gone.

Without --once a call whose outcome is not known may enqueue a second message.",
    "enqueued, or a repeat",
    ", VALUE is not of the queue's kind, or something is too large",
    "\n  3  the remembered key belongs to another message",
    ", or no file at @PATH",
    "nothing was enqueued",
    "Store::enqueue"
);

pub const LIST: &str = looks!(
    "\
On stdout without QUEUE, a line for each queue:
  queue \"mail\" codec=.. at_most_once=.. paused=.. ready=.. scheduled=.. claimed=.. blocked=.. dead=.. bytes=..
  oldest_ready=.. interruptions=.. discarded=..
where oldest_ready is for how long the message that is claimed next has been ready. With --json:
  {\"queue\":..,\"codec\":..,\"at_most_once\":..,\"paused\":..,\"ready\":..,\"scheduled\":..,\"claimed\":..,\"blocked\":..,\"dead\":..,
   \"bytes\":..,\"oldest_ready_ns\":..,\"interruptions\":..,\"discarded\":..}
Stale answers are counted by the process that gets them, and stand in no file: Store::queue_stats has them.

With QUEUE, a line for each message by its number: id, state (ready, scheduled, claimed, blocked behind another of its key, dead),
key (none without one), due, attempts, and with --payload the payload, with tabs between. With --json:
  {\"id\":..,\"state\":..,\"reason\":..,\"key\":..,\"due\":..,\"attempts\":..,\"payload\":..}
where \"reason\" is only of a dead one. All lines are of one moment.",
    " or queue"
);

pub const SHOW: &str = looks!(
    "\
On stdout a line for each thing that is known of it, at the end its header and error lines, and with --payload the payload.
With --json:
  {\"queue\":..,\"id\":..,\"state\":..,\"reason\":..,\"key\":..,\"due\":..,\"effect_id\":..,\"attempts\":..,\"failures\":..,\"interruptions\":..,
   \"replays\":..,\"enqueued_at\":..,\"expires_at\":..,\"died_at\":..,\"headers\":[[name,text],..],
   \"errors\":[{\"attempt\":..,\"at\":..,\"text\":..}],\"bytes\":..,\"payload\":..}",
    ", queue or message"
);

pub const CLAIM: &str = writes!(
    "\
On stdout, a line for each message: id, receipt, effect id, attempt, key (none without one), headers as [[name,text],..] and payload,
with tabs between, none of them empty. With --json:
  {\"id\":..,\"receipt\":..,\"effect_id\":..,\"attempt\":..,\"key\":..,\"headers\":[[name,text],..],\"enqueued_at\":..,\"payload\":..}
Nothing is printed if nothing is due, or the queue is paused.

What is printed is held until the lease is over, also while other commands or programs open the file; ack, nack, defer, release,
bury and extend take the receipt. The file is closed again before the first line. What cannot be written is given back, if nobody
has the file open then. A kill before the lines were printed leaves the messages held until the lease is over, and that counts as
an interruption.

A claim of a queue that delivers at most once removes its message: there is no receipt (none, or null), and no second delivery.",
    "claimed and printed, or nothing is due",
    "",
    "",
    " or queue",
    "nothing was claimed; or a line could not be written, and was given back",
    "Store::claim"
);

pub const ACK: &str = answers!(
    "On stdout: done, with --json {\"outcome\":\"done\"}. Called again it is stale: the message is gone.",
    "it is gone",
    ", or RECEIPT is none",
    "Store::ack"
);

pub const NACK: &str = answers!(
    "\
Words on stdout: again at=.. (it is delivered again from then on), dead reason=.. (failed or gave-up: its budget is spent). With --json:
  {\"outcome\":\"again\",\"at\":..} or {\"outcome\":\"dead\",\"reason\":..}",
    "again, or dead",
    ", or RECEIPT is none",
    "Store::nack"
);

pub const DEFER: &str = answers!(
    "On stdout: again at=.., with --json {\"outcome\":\"again\",\"at\":..}",
    "it is delivered again from then on",
    ", or RECEIPT is none",
    "Store::defer"
);

pub const RELEASE: &str = answers!(
    "On stdout: again at=.., with --json {\"outcome\":\"again\",\"at\":..}",
    "it can be claimed again",
    ", or RECEIPT is none",
    "Store::release"
);

pub const BURY: &str = answers!(
    "On stdout: dead reason=buried, with --json {\"outcome\":\"dead\",\"reason\":\"buried\"}",
    "it is a dead letter",
    ", or RECEIPT is none",
    "Store::bury"
);

pub const EXTEND: &str = answers!(
    "On stdout: extended, with --json {\"outcome\":\"extended\"}",
    "it is held",
    ", or RECEIPT is none",
    "Store::extend"
);

pub const DEAD: &str = looks!(
    "\
On stdout, a line for each dead letter in the order of their deaths: id, reason, key (none without one), when it died, attempts,
the last error (none without one), and with --payload the payload, with tabs between. With --json:
  {\"id\":..,\"reason\":..,\"key\":..,\"died_at\":..,\"attempts\":..,\"last_error\":{\"attempt\":..,\"at\":..,\"text\":..},\"payload\":..}
Reasons: failed, gave-up (too old to be tried again), interrupted (its deliveries were never answered), expired, buried,
undecodable (no message of the type that its handler takes).",
    " or queue"
);

pub const REPLAY: &str = writes!(
    "\
On stdout: replayed messages=.. refused=.. more=.., and a line for each that was refused: refused id=.. why=... With --json:
  {\"outcome\":\"replayed\",\"messages\":..,\"refused\":[{\"id\":..,\"why\":..}],\"more\":..}
why: expired, key-is-over (the remembered key in whose work it was enqueued is over), not-dead (also if there is none of this
number). --force replays the first two. more=true: a call takes at most 10000, or --limit; call again.

Budgets begin anew. The effect id stays, so that the far end knows a repeat, unless --new-effect-ids.",
    "replayed",
    ", or something is too large: say --limit",
    "\n  3  some were refused; the others were replayed",
    " or queue",
    "nothing was replayed",
    "Store::replay"
);

pub const DISCARD: &str = writes!(
    "\
On stdout: discarded messages=.. (how many there were), with --json {\"outcome\":\"discarded\",\"messages\":..}

By number it removes a message wherever it stands, also one that somebody delivers. The next one of its key goes on.",
    "discarded, or already gone",
    "",
    "",
    " or queue",
    "some dead letters may have been discarded",
    "WriteTx::discard, Store::discard_dead"
);

pub const PAUSE: &str = writes!(
    "\
Words on stdout: paused, already paused. With --json {\"outcome\":..}

It is kept in the file. Messages can be enqueued, and those that are claimed can be answered. Age is not counted meanwhile.",
    "paused",
    "",
    "",
    " or queue",
    "nothing was changed",
    "Store::pause"
);

pub const RESUME: &str = writes!(
    "Words on stdout: resumed, already running. With --json {\"outcome\":..}",
    "resumed",
    "",
    "",
    " or queue",
    "nothing was changed",
    "Store::resume"
);

pub const WATCH: &str = looks!(
    "\
On stdout, the lines of list: at first one for each queue, then those that changed in more than their age, as they are seen. What
comes and goes between two looks is not. It looks at the file again and again, since another process cannot be asked to tell.",
    " or queue"
);
