//! What comes out of the command, as its help tells it: words, JSON, kinds of errors and exit codes.
//!
//! Texts only. [`failure`](crate::failure) owns the kinds and codes, [`answer`](crate::answer) what becomes of an answer
//! that cannot be written; a test holds what is said here against what comes out.

/// What the long help of the command says: the exit codes, and all JSON in one place.
pub fn top() -> String {
    format!("{EXITS}\n\n{JSON}")
}

pub const EXITS: &str = "\
Exit codes:
  0  done: applied, or nothing to do (repeat, unchanged, already there, already gone); the word is on stdout
  1  check: something was found; demo: a row is not as expected
  2  usage, an invalid argument, or something too large
  3  a condition does not hold, a transition is refused, a remembered key belongs to another request, or a claim is stale
  4  there is no such file, table, record, machine, queue or message
  5  another process has the file open; commands that only read work nevertheless
  6  not a store, a newer format, corrupt, another kind of table, or a value that is not what its table says
  7  no room, an I/O error, or read-only: nothing was written
  8  the outcome is not known; call again with the same --once

A command that changes the store exits by what became of the store, also if nobody reads its stdout (| head -0): the answer
then goes to stderr, with a note of what went wrong. A command that only reads exits 7 if its answer could not be written. A
stdout that is closed from the start (>&-) counts as /dev/null: the answer is lost, and the exit code is that of the outcome.

In texts, control characters of names, keys and paths are shown escaped (\\n, \\u{1b}); a value is printed as it is stored.
Where a line is a record, newlines and tabs between the parts of a value are spaces.
Only init, demo, backup and restore create a file.";

const JSON: &str = "\
With --json, one object on one line of stdout:
  init         {\"outcome\":\"created\",\"file\":..}
  get          {\"table\":..,\"key\":..,\"version\":..,\"state\":..,\"value\":..}
  put          {\"outcome\":\"applied\" or \"unchanged\",\"version\":..}
               {\"outcome\":\"repeat\",\"version\":..,\"first_at\":..}, as delete and transition with --once
  scan         the object of get, a line for each record
  delete       {\"outcome\":\"applied\",\"version\":..} or {\"outcome\":\"already gone\"}
  transition   {\"outcome\":\"applied\" or \"already there\",\"version\":..}
  apply        for each batch {\"outcome\":..,\"verdicts\":[..]} (see help apply)
  tables       {\"name\":..,\"key\":..,\"codec\":..,\"schema\":..,\"machine\":..,\"states\":[{\"state\":..,\"records\":..}]},
               a line for each table; of one that is being migrated also \"migrating_to\":..
  machine      {\"machine\":..,\"initial\":..,\"cyclic\":..,\"states\":[..],\"moves\":[{\"from\":..,\"to\":..}]}, with a diagram also
               \"diagram\":..
  keys         {\"scope\":..,\"key\":..,\"first_at\":..,\"left_ns\":..}, a line for each key
  forget       {\"outcome\":\"applied\" or \"already gone\"}
  sweep        {\"outcome\":\"applied\",\"keys\":..}
  stats        {\"file\":..,\"file_bytes\":..,\"sequence\":..,\"log_half_bytes\":..,\"log_used_bytes\":..,\"retention_ns\":..,
               \"highest_wall_ns\":..,\"highest_wall\":..,\"tables\":[the object of tables, ..],\"queues\":[that of outbox list, ..]}
  check        {\"place\":{..},\"rule\":..,\"says\":..,\"seen\":..}, a line for each finding; \"place\" has \"region\" and \"offset\", or
               some of \"table\", \"key\", \"scope\", \"queue\", \"message\" and \"space\"; at the end
               {\"findings\":..,\"bytes\":..,\"frames\":..,\"pages\":..,\"base_verified\":..,\"tables\":..,\"records\":..,
               \"remembered_keys\":..,\"queues\":..,\"messages\":..,\"segments\":..,\"index_entries\":..}
  backup       {\"outcome\":\"backed up\",\"file\":..,\"sequence\":..,\"bytes\":..}
  restore      {\"outcome\":\"restored\",\"file\":..,\"sequence\":..,\"bytes\":..}
  compact      {\"outcome\":\"compacted\" or \"unchanged\",\"bytes_before\":..,\"bytes_after\":..}
  export       with and without --json, lines of JSON (see help export)
  import       {\"outcome\":\"imported\", \"completed\" or \"already imported\",\"tables\":..,\"records\":..,
               \"remembered_keys\":..,\"queues\":..,\"messages\":..}
  outbox       {\"outcome\":..} and what belongs to it, or a line for each queue or message (see help outbox and its verbs)
  clock reset  {\"outcome\":\"applied\",\"highest_wall\":..}
  completions  {\"shell\":..,\"script\":..}
  man          {\"command\":..,\"page\":..}
  demo         {\"file\":..,\"rows\":[{\"technique\":..,\"deliveries\":..,\"before\":..,\"after\":..,\"version\":..,\"expected\":..,
               \"as_expected\":..,\"absent\":..,\"present\":..}]}
If a change was made and stdout could not be written, the object is on stderr and has \"note\":.. as its last field.

An error is one object on stderr: {\"error\":{\"kind\":..,\"message\":..,\"causes\":[..]}}
Its kinds, by exit code:
  2  usage, invalid, too_large
  3  conflict and refused, with \"found\":{\"version\":..,\"state\":..}; refused also with \"why\":.. (see help transition);
     mismatch, with \"remembered\":{\"first_at\":..}; too_old; stale
  4  not_found (a file), no_table, no_record, no_machine, no_queue, no_message
  5  busy
  6  not_a_store, newer_format, corrupt, schema, decode
  7  full, read_only, io, closed
  8  in_doubt, unknown";

pub const INIT: &str = "\
On stdout: created file=.., with --json {\"outcome\":\"created\",\"file\":..}

Exit codes:
  0  created
  2  the file exists, or BYTES is out of its range
  4  there is no such folder
  7  no room, an I/O error, or read-only: no file is left";

pub const GET: &str = "\
A value of a JSON table is printed as it is stored, one of a bincode table as base64. With --json:
  {\"table\":..,\"key\":..,\"version\":..,\"state\":..,\"value\":..}
where a key of kind u64 or i64 is a number and any other its text form, state is null in a table without states, and a bincode
value is {\"base64\":..}.

Exit codes:
  0  printed
  2  usage, or KEY is not of the table's kind
  4  there is no such file, table or record
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, a newer format, corrupt, or the value is not JSON though its table says so
  7  an I/O error, also of stdout; or read-only";

pub const SCAN: &str = "\
On stdout, a line for each record: key, version, state (none in a table without states) and value, with tabs between. A value of a
bincode table is base64. With --json, a line for each record, the object of get:
  {\"table\":..,\"key\":..,\"version\":..,\"state\":..,\"value\":..}

All lines are of one moment. If a record cannot be read, the lines before it stand, and the error names it. A range without
records prints nothing. --to stops before its key.

Exit codes:
  0  printed
  2  usage, a key is not of the table's kind, --prefix of a number, or no such state
  4  there is no such file or table
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, a newer format, corrupt, or a value that is not what its table says
  7  an I/O error, also of stdout (| head); or read-only";

pub const TABLES: &str = "\
On stdout, a line for each table: its name, the kind of its keys, the encoding of its values, the number of its schema, and if its
records have states, the machine and how many records are in each state. With --json:
  {\"name\":..,\"key\":..,\"codec\":..,\"schema\":..,\"machine\":..,\"states\":[{\"state\":..,\"records\":..}]}
where machine is null and states is empty in a table without states. Of a table that is being migrated nothing is counted; it has
\"migrating_to\":.., the number of its next schema, and until that migration is called again every other use of it is refused (6).

Exit codes:
  0  printed
  2  usage
  4  there is no such file
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, a newer format, or corrupt
  7  an I/O error, also of stdout; or read-only";

pub const MACHINE: &str = "\
On stdout: the machine, its initial state, and a line for each state and each move, with the names in quotes. With --json:
  {\"machine\":..,\"initial\":..,\"cyclic\":..,\"states\":[..],\"moves\":[{\"from\":..,\"to\":..}]}
with --mermaid or --dot also \"diagram\":..

Exit codes:
  0  printed
  2  usage, or tables have different machines of this name
  4  there is no such file, or neither a table with states nor a machine of this name
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, a newer format, or corrupt
  7  an I/O error, also of stdout; or read-only";

pub const KEYS: &str = "\
On stdout, a line for each remembered key, by scope and key: scope, key, when its operation was done first, and how long it is
still kept at least (or forever), with tabs between. A key that is not all printable ASCII is hex: and two digits a byte. With
--json:
  {\"scope\":..,\"key\":..,\"first_at\":..,\"left_ns\":..}
where left_ns is null for ever.

If an entry cannot be read, the lines before it stand, and the error names it.

Exit codes:
  0  printed
  2  usage, or SCOPE is none
  4  there is no such file
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, a newer format, or corrupt
  7  an I/O error, also of stdout (| head); or read-only";

pub const FORGET: &str = "\
Words on stdout: applied, already gone (nothing is remembered under it, or its time is over). With --json:
  {\"outcome\":\"applied\"} or {\"outcome\":\"already gone\"}

The next delivery of that operation runs, also if it is a repeat: forget only what must be done again.

Exit codes:
  0  applied or already gone
  2  usage, or SCOPE/KEY is out of its limits
  4  there is no such file
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: nothing was forgotten
  8  the outcome is not known; call again";

pub const SWEEP: &str = "\
On stdout: applied keys=.. (how many keys were freed), with --json {\"outcome\":\"applied\",\"keys\":..}

Nobody need call this: a key that is over answers nobody, and its space is freed with later writes. The space is used again inside
of the file; the file need not become shorter.

Exit codes:
  0  applied
  2  usage
  4  there is no such file
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: some keys may have been freed
  8  the outcome is not known; call again";

pub const BACKUP: &str = "\
On stdout: backed up file=.. sequence=.. bytes=.., with --json
  {\"outcome\":\"backed up\",\"file\":..,\"sequence\":..,\"bytes\":..}
where sequence is the last commit that is inside, and bytes the length of the new file.

The backup is the state of one moment. It gets its name only when it is whole, checked and synced. A kill may leave an unfinished
file beside it, with a name that begins with a dot and has .new- in it; remove it.

Exit codes:
  0  backed up
  2  usage, or TO exists
  4  there is no such file, or no such folder
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: no backup was made";

pub const RESTORE: &str = "\
On stdout: restored file=.. sequence=.. bytes=.., with --json
  {\"outcome\":\"restored\",\"file\":..,\"sequence\":..,\"bytes\":..}

FROM is checked in full before anything is made, and what is at TO stays until the new file is whole, checked and synced.

The new store has an identity of its own. What was done after the backup is forgotten: a delivery that was answered after it can run
again, and a version that was given after it is given again. Compare with the other side before you let workers in.

Exit codes:
  0  restored
  2  usage, or TO exists; with --replace, TO has a second name
  4  there is no such file, or no such folder
  5  another process has FROM open, or with --replace TO
  6  FROM is not a store, of a newer format, or corrupt; with --replace, TO is not a store or of a newer format
  7  no room, an I/O error, or read-only: nothing was restored
  8  restored over another store, which a power loss may bring back; call again";

pub const COMPACT: &str = "\
On stdout: compacted bytes_before=.. bytes_after=.., or unchanged .. if the file would not become shorter. With --json:
  {\"outcome\":..,\"bytes_before\":..,\"bytes_after\":..}

Needs room for the new file beside the old one. A kill leaves the old file or the new one, each whole, and perhaps an unfinished
one beside it, with a name that begins with a dot and has .new- in it; remove it.

Exit codes:
  0  compacted or unchanged
  2  usage, or the file has a second name (a hard link), which would be left with the old content
  4  there is no such file
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: the file is as it was
  8  compacted, but a power loss may bring the old file back, which holds the same";

pub const EXPORT: &str = "\
On stdout, with and without --json, lines of one object each; docs/FORMAT.md describes them all:
  {\"line\":\"sprag export\",\"form\":1,..}                       the first
  {\"line\":\"table\",\"name\":..,\"shape\":{..},..}              a table
  {\"line\":\"record\",\"table\":..,\"key\":..,\"version\":..,..}  a record
  {\"line\":\"remembered_key\",\"scope\":..,\"key\":..,..}        a remembered key that is not over
  {\"line\":\"end\",\"lines\":..,\"digest\":..}                  the last; without it, the export is cut off

It is the state of one moment, which is checked before the first line. If something cannot be read, the error names it and there is
no last line.

Exit codes:
  0  printed
  2  usage
  4  there is no such file
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, a newer format, corrupt, or a table is being migrated
  7  an I/O error, also of stdout; or read-only";

pub const IMPORT: &str = "\
On stdout: imported tables=.. records=.. remembered_keys=.. queues=.. messages=.., or completed .. if an earlier call had been stopped, or already
imported .. if there was nothing left to do. With --json:
  {\"outcome\":..,\"tables\":..,\"records\":..,\"remembered_keys\":..,\"queues\":..,\"messages\":..}

FILE must exist and be empty: sprag init FILE. Versions and states are those of the source; a remembered key is kept from now on
for the time that it had left. If it is stopped, or fails, call it again with the same lines. What was taken in stays; until the end
the store holds a part. An error of a line names it, counted from 1.

Exit codes:
  0  imported, completed or already imported
  2  usage, the store is not empty, the input is no export, cut off or changed, or something is too large
  4  there is no such file
  5  another process has the file open
  6  not a store, a newer format (of FILE, or of the lines), corrupt
  7  no room, an I/O error, or read-only: call again
  8  the outcome is not known; call again";

pub const COMPLETIONS: &str = "\
On stdout: a script for the shell, with --json {\"shell\":..,\"script\":..}. For bash: source <(sprag completions bash)

Exit codes:
  0  printed
  2  usage
  7  stdout cannot be written";

pub const MAN: &str = "\
On stdout: a page, with --json {\"command\":..,\"page\":..}. To read it: sprag man get | man -l -

Exit codes:
  0  printed
  2  usage, or there is no such command
  7  stdout cannot be written";

pub const PUT: &str = "\
Words on stdout: applied, unchanged (the record already is what this call would have made it, by whom is not known), repeat
(the same operation was done before under --once; the version is the one it answered then). With --json:
  {\"outcome\":..,\"version\":..}, for repeat also \"first_at\":..

Once: a remembered key belongs to the table, the record's key, the condition and the value without its whitespace; another of
these under the same SCOPE/KEY is refused (3, mismatch). --keep is not part of it, and the first one counts: a repeat does not
make it longer. applied and unchanged are remembered, and a repeat says so even if the record was changed or deleted since. A
condition that does not hold is not remembered: a later try can still be applied.

Exit codes:
  0  applied, unchanged or repeat
  2  usage, KEY or VALUE is not of the table's kind, or something is too large or nested too deep
  3  the condition does not hold (also if there is no record), or the remembered key belongs to another operation
  4  there is no such file (a file is never made), or no file at @PATH
  5  another process has the file open
  6  not a store, a newer format, corrupt, or the table has keys of another kind than --key says
  7  no room, an I/O error, or read-only: nothing was written; or @PATH or stdin cannot be read (a folder, no permission)
  8  the outcome is not known; call again with the same --once";

pub const DELETE: &str = "\
Words on stdout: applied (with the version that was removed), already gone (there is no such record, whatever the condition).
With --json: {\"outcome\":\"applied\",\"version\":..} or {\"outcome\":\"already gone\"}

A repeat of a delete is safe if nobody makes the record anew in between, or with --if-version. Where it could be late, use
--once: the repeat then says so (repeat, with the version that was removed) and removes nothing.

Exit codes:
  0  applied, already gone or repeat
  2  usage, or KEY is not of the table's kind
  3  the condition does not hold, or the remembered key belongs to another operation
  4  there is no such file or table
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: nothing was removed
  8  the outcome is not known; call again, with the same --once if there was one; without, applied or already gone does not tell who removed the record";

pub const TRANSITION: &str = "\
Words on stdout: applied, already there (the record is in state TO; by whom it was moved is not known). With --json:
  {\"outcome\":..,\"version\":..}

A refusal says why; with --json in the field \"why\" of the error:
  late      the record is already past FROM: a repeat, or overtaken by others
  early     the record has not yet come to FROM: try again later
  either    the machine has a cycle, so it may be one or the other
  no path   no moves connect the state found with FROM and TO
  no state  the record was written while its table had no states

A repeat of a transition is safe where the machine has no cycle. In others use --once: the repeat then says so (repeat, with
the version that the first one made) and moves nothing.

Exit codes:
  0  applied, already there or repeat
  2  usage, no such state or move, a table without states, or KEY is not of the table's kind
  3  refused: the record is in another state; or the remembered key belongs to another operation
  4  there is no such file, table or record
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: nothing was written
  8  the outcome is not known; call again, with the same --once if there was one; without, already there, or late if others moved it on, does not tell who moved it";

pub const APPLY: &str = "\
The input is one JSON object, or several, as JSON lines: a batch each, in a commit of its own. All of a batch is applied or
nothing. docs/batch.schema.json describes it; for example
  {\"once\":{\"scope\":\"payments\",\"key\":\"evt-1\",\"keep\":\"7d\"},
   \"tables\":{\"balances\":{\"key\":\"u64\",\"codec\":\"json\"}},
   \"queues\":{\"emails\":{\"codec\":\"json\"}},
   \"operations\":[{\"op\":\"put\",\"table\":\"balances\",\"key\":51,\"condition\":{\"version\":7},\"value\":140},
                 {\"op\":\"enqueue\",\"queue\":\"emails\",\"message\":\"40 have come\",\"key\":\"51\",\"delay\":\"5s\"}]}
Operations: check, put, create, delete, transition, enqueue. A table that is in the file need not stand under \"tables\", and a
queue not under \"queues\".

One line on stdout for each batch. Its words: applied; already (every operation is already so, by whom is not known); repeat (done
before under its once); rejected (nothing was written). Behind them one verdict for each operation, in order: holds, unguarded (it
has no condition), already, fails with what was found, or enqueued with the id of the message. With --json:
  {\"outcome\":..,\"verdicts\":[{\"verdict\":..,\"version\":..},{\"verdict\":\"fails\",\"found\":{\"version\":..,\"state\":..},\"why\":..},
    {\"verdict\":\"enqueued\",\"id\":..}]}
for repeat also \"first_at\":.., for a dry run also \"dry_run\":true.

With --dry-run each batch is judged against the file as it is, without those before it. The file stays open from the first batch to
the end of the input, so others are told Busy while a pipe is open.

A rejected batch does not stop those behind it. An error does; it names the batch, which is counted from 0, and where it is known
the operation, line and column (those of a batch that could be read as JSON are counted from its beginning). Batches before it
are done: mend the input and apply all of it again, which is safe for batches with once.

Exit codes:
  0  every batch was applied, already so or a repeat
  2  usage, the input is no batch, or something is too large
  3  a batch was rejected, or a remembered key belongs to another batch
  4  there is no such file, or no file at BATCH
  5  another process has the file open
  6  not a store, a newer format, corrupt, or a table or queue is described otherwise than in the file
  7  no room, an I/O error, or read-only: the batch that the error names was not applied; or stdout is closed and batches are left
     (on stderr then the verdict that could not be written, with its note, and behind it the error)
  8  the outcome of the batch that the error names is not known; apply it again";

pub const STATS: &str = "\
The fields of --json are listed by sprag help. Behind the tables stand the queues, as outbox list prints them.

Exit codes:
  0  printed
  2  usage
  4  there is no such file
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, a newer format, or corrupt
  7  an I/O error, also of stdout; or read-only";

pub const CHECK: &str = "\
On stdout, a line for each finding: where it is, which rule is broken there, and what was seen, with tabs between; at the end, what
was looked at: findings=0 bytes=.. frames=.. pages=.. and so on. At most 1000 findings are printed, all are counted. With --json:
  {\"place\":{\"region\":..,\"offset\":..},\"rule\":..,\"says\":..,\"seen\":..}
  {\"findings\":..,\"bytes\":..,\"frames\":..,\"pages\":..,\"base_verified\":..,\"tables\":..,\"records\":..,\"remembered_keys\":..,
   \"queues\":..,\"messages\":..,\"segments\":..,\"index_entries\":..}
A place in a table has \"table\" and \"key\", a remembered key \"scope\" and \"key\", a message \"queue\" and \"message\", another entry \"space\" and \"key\".

It looks at the superblock, the log, every page of the base with its checksum, every record, remembered key, table and message, and at
indexes and counters both ways. While another process writes to the file, one state of it is checked, and neither the
checksums of pages nor the log (base_verified=false). It changes nothing and goes on behind what is damaged as far as it can. What was written last and
is torn is no damage. It reads the whole file more than once.

Exit codes:
  0  nothing was found
  1  something was found: keep the file, and restore from a copy
  2  usage
  4  there is no such file
  5  a process that writes to the file was started anew meanwhile; call again
  6  not a store, or a newer format
  7  an I/O error, also of stdout; or read-only";

pub const CLOCK: &str = "\
On stdout: applied highest_wall=.., with --json {\"outcome\":\"applied\",\"highest_wall\":..}

Exit codes:
  0  applied
  2  usage
  4  there is no such file
  5  another process has the file open
  6  not a store, a newer format, or corrupt
  7  no room, an I/O error, or read-only: nothing was written
  8  the outcome is not known; call again";

pub const DEMO: &str = "\
Each technique has a table of its name in the file, each delivery a record of its name (kill 1, kill 2, .. for the kills), so
that every row can be looked up: sprag get FILE 'remembered key' 11 --long

The technique none is wrong on purpose: its rows are as expected if they are as wrong as they must be.

Exit codes:
  0  every row is as expected
  1  a row is not as expected
  2  usage, or the file exists
  4  there is no such folder
  7  no room, an I/O error, also of stdout; or read-only";
