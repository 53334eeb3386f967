//! `check`: what it prints, and that it exits 1 if it found something.

use sprag::{Json, Keep, OnceKey, Stateless, Store, Table};

use super::{Place, Seen};

const USERS: Table<str, u64, Stateless, Json> = Table::new("users");

fn filled() -> Place {
    let place = Place::with_store();
    let store = Store::open(&place.file).expect("the store");
    store.put(USERS, "ann", &41).expect("a put");
    let once = store.once(&OnceKey::new("s", "k", Keep::Forever), |_| {
        Ok::<_, sprag::Error>("struck by a ray".to_owned())
    });
    drop(once.expect("remembered"));
    store.close().expect("closed");
    place
}

#[test]
fn a_sound_store_prints_what_was_looked_at_and_exits_0() {
    let place = filled();
    let bytes = std::fs::metadata(&place.file).expect("the file").len();
    let seen = place.run(&["check", "FILE"]);
    let counted =
        "base_verified=true tables=1 records=1 remembered_keys=1 queues=0 messages=0 segments=1 index_entries=0";
    assert!(
        seen.out
            .starts_with(&format!("findings=0 bytes={bytes} frames=0 pages=")),
        "{seen:?}"
    );
    assert!(seen.out.ends_with(&format!(" {counted}\n")), "{seen:?}");
    assert_eq!(
        (seen.code, seen.err.as_str(), seen.out.lines().count()),
        (Some(0), "", 1)
    );
    let object: serde_json::Value = serde_json::from_str(&place.json(&["check", "FILE"]).out).expect("an object");
    assert_eq!((&object["findings"], &object["bytes"]), (&0.into(), &bytes.into()));
}

#[test]
fn a_damaged_store_prints_its_findings_and_exits_1_and_stays_as_it_is() {
    let place = filled();
    let mut image = std::fs::read(&place.file).expect("its bytes");
    let base = crate::common::BASE_BEGINS;
    let places: Vec<usize> = (base..image.len() - 5)
        .filter(|at| &image[*at..*at + 5] == b"a ray")
        .collect();
    assert!(!places.is_empty());
    for at in places {
        image[at] = b'A';
    }
    std::fs::write(&place.file, &image).expect("patched");
    let seen = place.run(&["check", "FILE"]);
    assert_eq!((seen.code, seen.err.as_str()), (Some(1), ""), "{seen:?}");
    let lines: Vec<&str> = seen.out.lines().collect();
    assert!(lines[0].starts_with("base offset="), "{seen:?}");
    assert!(
        lines[0].ends_with("\tbase.page\tanother checksum than its parent names, kind=1"),
        "{seen:?}"
    );
    assert!(
        lines.contains(&"remembered key=s/k\tremembered\tentry of a remembered key is damaged"),
        "{seen:?}"
    );
    assert!(lines[lines.len() - 1].starts_with("findings=2 bytes="), "{seen:?}");
    let seen: Seen = place.json(&["check", "FILE"]);
    assert_eq!((seen.code, seen.err.as_str()), (Some(1), ""), "{seen:?}");
    let objects: Vec<serde_json::Value> = seen
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    assert_eq!(objects[0]["place"]["region"], "base");
    assert_eq!(objects[1]["place"], serde_json::json!({"scope": "s", "key": "k"}));
    assert_eq!(objects[1]["rule"], "remembered");
    assert_eq!(objects[2]["findings"], 2);
    assert!(std::fs::read(&place.file).expect("its bytes") == image, "a check wrote");
}

/// What an open refuses is told of with its place.
#[test]
fn a_store_that_no_command_opens_is_checked() {
    let place = filled();
    let mut image = std::fs::read(&place.file).expect("its bytes");
    image[30] ^= 1;
    std::fs::write(&place.file, &image).expect("patched");
    place.json(&["get", "FILE", "users", "ann"]).fails(6, "corrupt");
    let seen = place.run(&["check", "FILE"]);
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert!(
        seen.out
            .starts_with("superblock offset=0\tsuperblock\tsuperblock checksum is wrong\n"),
        "{seen:?}"
    );
}
