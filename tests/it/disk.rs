//! The simulated disk keeps the promises that crash tests lean on, and breaks everything that it does not promise.
//!
//! The real file is tested through the store, which alone can reach it.

use std::io::ErrorKind;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use sprag::testkit::{CrashPlan, Disk, EventKind, FaultKind, FaultMode, RamDisk, SimDisk};

const SECTOR: usize = 512;

/// splitmix64, seeded by `SPRAG_SEED` if that is set.
struct Random(u64);

impl Random {
    fn new(test: &str) -> Random {
        let seed = std::env::var("SPRAG_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(20_260_101);
        println!("{test}: SPRAG_SEED={seed}");
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 7
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn zeros(len: usize) -> SimDisk {
    SimDisk::from_image(vec![0; len])
}

fn after_power_loss(disk: &SimDisk) -> Vec<u8> {
    disk.power_loss(0, CrashPlan::DropAll).cache_image()
}

fn read(disk: &impl Disk, offset: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    disk.read(offset, &mut out).unwrap();
    out
}

#[test]
fn a_synced_write_makes_only_its_own_range_durable() {
    let disk = zeros(40);
    disk.write(0, &[1; 40]).unwrap();
    disk.write_synced(10, &[2; 10]).unwrap();
    let mut expected = vec![0; 40];
    expected[10..20].fill(2);
    assert_eq!(after_power_loss(&disk), expected);
    assert_eq!(
        disk.pending_changes(),
        2,
        "the unsynced write before and behind the range"
    );

    disk.sync().unwrap();
    let mut expected = vec![1; 40];
    expected[10..20].fill(2);
    assert_eq!(
        after_power_loss(&disk),
        expected,
        "an older write never lands over a synced one"
    );
}

#[test]
fn a_sync_makes_writes_and_the_length_durable() {
    let disk = SimDisk::new();
    disk.write(3, b"abc").unwrap();
    disk.set_len(8).unwrap();
    assert_eq!(after_power_loss(&disk), b"");
    disk.sync().unwrap();
    assert_eq!(after_power_loss(&disk), b"\0\0\0abc\0\0");
    disk.set_len(4).unwrap();
    assert_eq!(after_power_loss(&disk).len(), 8);
    disk.sync().unwrap();
    assert_eq!(after_power_loss(&disk), b"\0\0\0a");
}

#[test]
fn a_cut_that_is_not_durable_takes_nothing_from_a_later_synced_write() {
    let disk = SimDisk::from_image(vec![9; 1000]);
    disk.set_len(100).unwrap();
    disk.write_synced(200, &[7; 50]).unwrap();
    let seen = disk.cache_image();
    assert_eq!(seen.len(), 250);
    for seed in 0..200 {
        let image = disk.power_loss(seed, CrashPlan::Any).cache_image();
        assert_eq!(image[200..250], [7; 50], "seed {seed}");
    }
    assert_eq!(disk.power_loss(0, CrashPlan::KeepAll).cache_image(), seen);
    assert_eq!(after_power_loss(&disk).len(), 1000, "the cut itself is not durable");
}

#[test]
fn a_write_behind_the_durable_end_fills_the_gap_with_zeros() {
    let disk = SimDisk::from_image(b"abcd".to_vec());
    disk.set_len(2 * SECTOR as u64).unwrap();
    disk.write(SECTOR as u64, b"behind").unwrap();
    let mut length_dropped = 0;
    for seed in 0..200 {
        let image = disk
            .power_loss(seed, CrashPlan::Random { keep_percent: 50 })
            .cache_image();
        if image.len() == SECTOR + 6 {
            length_dropped += 1;
            assert_eq!(image[..4], *b"abcd");
            assert!(image[4..SECTOR].iter().all(|byte| *byte == 0));
            assert_eq!(image[SECTOR..], *b"behind");
        }
    }
    assert!(length_dropped > 10);
}

#[test]
fn a_kill_keeps_the_cache_and_a_later_power_loss_drops_it() {
    let disk = zeros(4);
    disk.write(0, b"ab").unwrap();
    let survivor = disk.kill();
    disk.sync().unwrap();
    assert_eq!(read(&survivor, 0, 4), b"ab\0\0");
    survivor.write_synced(2, b"c").unwrap();
    assert_eq!(
        after_power_loss(&survivor),
        b"\0\0c\0",
        "what the killed process wrote is still not durable"
    );
    survivor.sync().unwrap();
    assert_eq!(after_power_loss(&survivor), b"abc\0");
    assert_eq!(read(&disk, 0, 4), b"ab\0\0", "the two are independent");
}

#[test]
fn after_a_failed_sync_only_what_is_written_again_becomes_durable() {
    let disk = zeros(6);
    disk.write(0, b"abcdef").unwrap();
    disk.fail(FaultKind::Sync, 0, FaultMode::FailOnce, ErrorKind::Other);
    assert_eq!(disk.sync().unwrap_err().kind(), ErrorKind::Other);
    disk.sync().unwrap();
    assert_eq!(read(&disk, 0, 6), b"abcdef", "the cache shows what the disk lacks");
    assert_eq!(after_power_loss(&disk), [0; 6], "and the clean sync proves nothing");
    assert_eq!(disk.power_loss(0, CrashPlan::KeepAll).cache_image(), [0; 6]);
    disk.write(2, b"cd").unwrap();
    disk.sync().unwrap();
    assert_eq!(after_power_loss(&disk), b"\0\0cd\0\0");
    disk.write_synced(0, b"ab").unwrap();
    assert_eq!(after_power_loss(&disk), b"abcd\0\0");
}

#[test]
fn a_synced_write_fails_in_each_way_that_a_caller_must_survive() {
    for (fault, seen, durable, once_synced) in [
        (FaultKind::WriteSynced, b"old!", b"old!", b"old!"),
        (FaultKind::WriteSyncedShort, b"ned!", b"old!", b"ned!"),
        (FaultKind::WriteSyncedLost, b"new!", b"old!", b"old!"),
        (FaultKind::WriteSyncedLanded, b"new!", b"new!", b"new!"),
    ] {
        let disk = SimDisk::from_image(b"old!".to_vec());
        disk.fail(fault, 0, FaultMode::FailOnce, ErrorKind::StorageFull);
        let data = if fault == FaultKind::WriteSyncedShort {
            &b"neXX"[..]
        } else {
            &b"new"[..]
        };
        assert_eq!(
            disk.write_synced(0, data).unwrap_err().kind(),
            ErrorKind::StorageFull,
            "{fault:?}"
        );
        assert_eq!(read(&disk, 0, 4), seen, "{fault:?}");
        assert_eq!(after_power_loss(&disk), durable, "{fault:?}");
        disk.sync().unwrap();
        assert_eq!(after_power_loss(&disk), once_synced, "{fault:?}");
    }
}

#[test]
fn a_lost_synced_write_takes_older_unsynced_bytes_of_its_range_along() {
    let disk = zeros(4);
    disk.write(0, b"aaaa").unwrap();
    disk.fail(FaultKind::WriteSyncedLost, 0, FaultMode::FailOnce, ErrorKind::Other);
    disk.write_synced(1, b"bb").unwrap_err();
    disk.sync().unwrap();
    assert_eq!(read(&disk, 0, 4), b"abba");
    assert_eq!(after_power_loss(&disk), b"a\0\0a");
}

#[test]
fn the_nth_call_of_a_kind_fails_once_or_for_ever() {
    let disk = zeros(1);
    disk.fail(FaultKind::Write, 2, FaultMode::FailOnce, ErrorKind::Other);
    disk.fail(FaultKind::Read, 1, FaultMode::FailForever, ErrorKind::PermissionDenied);
    let writes: Vec<bool> = (0..5).map(|n| disk.write(0, &[n]).is_ok()).collect();
    assert_eq!(writes, [true, true, false, true, true]);
    let reads: Vec<bool> = (0..4).map(|_| disk.read(0, &mut [0]).is_ok()).collect();
    assert_eq!(reads, [true, false, false, false]);
    assert!(
        disk.len().is_ok() && disk.sync().is_ok() && disk.set_len(1).is_ok(),
        "other kinds are not concerned"
    );
    assert_eq!(disk.faults_fired(), 4);
    disk.heal();
    assert_eq!(read(&disk, 0, 1), [4]);
    for fault in [
        FaultKind::Len,
        FaultKind::SetLen,
        FaultKind::WriteShort,
        FaultKind::SyncLanded,
    ] {
        disk.fail(fault, 0, FaultMode::FailOnce, ErrorKind::Other);
    }
    assert!(disk.len().is_err() && disk.set_len(9).is_err() && disk.len().is_ok());
    disk.write(0, b"xy").unwrap_err();
    disk.sync().unwrap_err();
    assert_eq!(
        after_power_loss(&disk),
        b"x",
        "half of it was written, and the sync that failed had done its work"
    );
}

#[test]
fn a_full_disk_refuses_growth_and_lets_the_rest_be_written() {
    let disk = zeros(4);
    disk.set_capacity(Some(5));
    disk.write(0, b"abcd").unwrap();
    disk.write_synced(4, b"e").unwrap();
    for refused in [disk.write(4, b"ef"), disk.write_synced(5, b"f"), disk.set_len(6)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::StorageFull);
    }
    assert_eq!(read(&disk, 0, 5), b"abcde");
    assert_eq!(disk.len().unwrap(), 5);
    disk.heal();
    disk.set_len(6).unwrap();
    assert_eq!(
        disk.write(u64::MAX, b"x").unwrap_err().kind(),
        ErrorKind::StorageFull,
        "out of thin air"
    );
}

/// Guards against a tear inside a sector, which the store need not survive, and against a plan that never tears.
#[test]
fn a_torn_write_is_cut_between_sectors_and_lands_in_part() {
    let disk = zeros(10 * SECTOR);
    disk.write(SECTOR as u64, &[1; SECTOR]).unwrap();
    disk.write(2 * SECTOR as u64 + 100, &[2; 6 * SECTOR]).unwrap();
    disk.write(9 * SECTOR as u64, &[3; SECTOR]).unwrap();
    let (mut fronts, mut backs) = (0, 0);
    for seed in 0..100 {
        let image = disk.power_loss(seed, CrashPlan::TearOne).cache_image();
        assert_eq!(
            image[SECTOR..2 * SECTOR],
            [1; SECTOR],
            "what came before the torn write landed"
        );
        assert_eq!(image[9 * SECTOR..], [0; SECTOR], "what came after it did not");
        let landed: Vec<bool> = (2..9)
            .map(|sector| {
                let from = if sector == 2 { 100 } else { 0 };
                let to = if sector == 8 { 100 } else { SECTOR };
                let part = &image[sector * SECTOR + from..sector * SECTOR + to];
                assert!(
                    part.iter().all(|byte| *byte == part[0]),
                    "sector {sector} is torn inside, seed {seed}"
                );
                part[0] == 2
            })
            .collect();
        assert_eq!(
            landed.windows(2).filter(|pair| pair[0] != pair[1]).count(),
            1,
            "one cut, seed {seed}"
        );
        if landed[0] { fronts += 1 } else { backs += 1 }
    }
    assert!(fronts > 20 && backs > 20, "{fronts} {backs}");
}

#[test]
fn an_older_sector_may_lie_over_a_newer_one_after_a_power_loss() {
    let disk = zeros(SECTOR);
    disk.write(0, &[1; SECTOR]).unwrap();
    disk.write(0, &[2; SECTOR]).unwrap();
    let mut seen = [0; 3];
    for seed in 0..1000 {
        let image = disk
            .power_loss(seed, CrashPlan::Random { keep_percent: 100 })
            .cache_image();
        assert!(image.iter().all(|byte| *byte == image[0]));
        seen[usize::from(image[0])] += 1;
    }
    assert_eq!(seen[0], 0, "at 100 percent nothing is dropped");
    assert!(seen[1] > 50 && seen[2] > 500, "{seen:?}");
}

/// A random workload with kills, failed syncs and power losses, against what is allowed for each byte.
#[test]
fn after_any_power_loss_each_byte_is_the_durable_one_or_one_written_since() {
    const LEN: usize = 6 * SECTOR;
    let mut random = Random::new("after_any_power_loss");
    let mut disk = zeros(LEN);
    // For each byte what a power loss may leave: first what is durable, then what was written since, in order.
    let mut allowed: Vec<Vec<u8>> = vec![vec![0]; LEN];
    let (mut dropped, mut landed, mut older) = (0, 0, 0);
    for round in 1..=20_000_u64 {
        let offset = random.below(LEN as u64 - 1);
        let len = 1 + random.below((LEN as u64 - offset).min(3 * SECTOR as u64));
        let (data, range) = (random.bytes(len), offset as usize..(offset + len) as usize);
        match random.below(10) {
            0..5 => {
                disk.write(offset, &data).unwrap();
                allowed[range]
                    .iter_mut()
                    .zip(&data)
                    .for_each(|(bytes, byte)| bytes.push(*byte));
            }
            5..7 => {
                disk.write_synced(offset, &data).unwrap();
                allowed[range]
                    .iter_mut()
                    .zip(&data)
                    .for_each(|(bytes, byte)| *bytes = vec![*byte]);
            }
            7 => {
                disk.sync().unwrap();
                for bytes in &mut allowed {
                    drop(bytes.drain(..bytes.len() - 1));
                }
            }
            8 => disk = disk.kill(),
            _ => {
                let image = disk.power_loss(round, CrashPlan::Any);
                for (byte, bytes) in image.durable_image().iter().zip(&allowed) {
                    assert!(bytes.contains(byte), "round {round}");
                    if let [durable, between @ .., newest] = bytes.as_slice() {
                        dropped += u64::from(byte == durable);
                        landed += u64::from(byte == newest);
                        older += u64::from(between.contains(byte));
                    }
                }
                assert_eq!(
                    disk.power_loss(round, CrashPlan::KeepAll).cache_image(),
                    disk.cache_image()
                );
                assert_eq!(image.cache_image(), image.durable_image());
                assert_eq!(image.pending_changes(), 0);
                allowed = image.durable_image().iter().map(|byte| vec![*byte]).collect();
                disk = image;
            }
        }
    }
    assert!(
        dropped > 1000 && landed > 1000 && older > 1000,
        "{dropped} {landed} {older}"
    );
}

#[test]
fn while_nothing_fails_every_disk_shows_the_same_bytes() {
    let mut random = Random::new("while_nothing_fails");
    let (sim, ram) = (SimDisk::new(), RamDisk::new());
    for _ in 0..5_000 {
        let (offset, len) = (random.below(4000), random.below(1500));
        let data = random.bytes(len);
        match random.below(6) {
            0 | 1 => assert!(sim.write(offset, &data).is_ok() && ram.write(offset, &data).is_ok()),
            2 => assert!(sim.write_synced(offset, &data).is_ok() && ram.write_synced(offset, &data).is_ok()),
            3 => assert!(sim.sync().is_ok() && ram.sync().is_ok()),
            4 => assert!(sim.set_len(offset).is_ok() && ram.set_len(offset).is_ok()),
            _ => {
                let (mut left, mut right) = (vec![0; len as usize], vec![0; len as usize]);
                let outcomes = (sim.read(offset, &mut left), ram.read(offset, &mut right));
                assert_eq!(
                    outcomes.0.map_err(|error| error.kind()),
                    outcomes.1.map_err(|error| error.kind())
                );
                assert_eq!(left, right);
            }
        }
        let len = sim.len().unwrap();
        assert_eq!(len, ram.len().unwrap());
        assert_eq!(
            sim.power_loss(0, CrashPlan::KeepAll).cache_image(),
            read(&ram, 0, len as usize)
        );
    }
}

#[test]
fn memory_refuses_positions_out_of_thin_air() {
    let ram = RamDisk::new();
    ram.write(0, b"abc").unwrap();
    assert!(ram.write(u64::MAX, b"x").is_err());
    assert!(ram.set_len(u64::MAX).is_err());
    assert_eq!(
        ram.read(u64::MAX, &mut [0; 2]).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    assert_eq!(ram.read(2, &mut [0; 2]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(read(&ram, 0, 3), b"abc");
}

#[test]
fn the_observer_sees_each_call_before_its_effect_and_may_cut_inside_it() {
    let disk = zeros(4 * SECTOR);
    disk.write(0, &[1; SECTOR]).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    disk.on_event(move |event, disk| {
        let images = (0..64)
            .map(|seed| disk.power_loss_during(event, seed, CrashPlan::Any))
            .collect::<Vec<_>>();
        log.lock().unwrap().push((
            event.index,
            event.kind,
            event.offset,
            event.len,
            disk.cache_image(),
            images,
        ));
    });
    disk.write_synced(SECTOR as u64, &[2; 2 * SECTOR]).unwrap();
    disk.sync().unwrap();
    disk.set_len(9).unwrap();
    disk.stop_observing();
    disk.write(0, b"unseen").unwrap();

    let seen = seen.lock().unwrap();
    let calls: Vec<_> = seen
        .iter()
        .map(|(index, kind, offset, len, ..)| (*index, *kind, *offset, *len))
        .collect();
    assert_eq!(
        calls,
        [
            (1, EventKind::WriteSynced, 512, 1024),
            (2, EventKind::Sync, 0, 0),
            (3, EventKind::SetLen, 0, 9)
        ]
    );
    let (.., cache, images) = &seen[0];
    assert_eq!(cache[SECTOR..], [0; 3 * SECTOR], "before its effect");
    let landed = |image: &SimDisk| {
        let image = image.durable_image();
        (0..3).map(|sector| image[sector * SECTOR] != 0).collect::<Vec<_>>()
    };
    for outcome in [
        [false, false, false],
        [true, true, true],
        [false, true, false],
        [true, false, true],
    ] {
        assert!(images.iter().any(|image| landed(image) == outcome), "{outcome:?}");
    }
    let (.., images) = &seen[1];
    assert!(
        images.iter().all(|image| landed(image)[1..] == [true, true]),
        "once it returned it is durable"
    );
    assert!(
        images.iter().any(|image| !landed(image)[0]),
        "a sync that is cut may have done nothing"
    );
    let (.., images) = &seen[2];
    assert!(
        images
            .iter()
            .all(|image| matches!(image.durable_image().len(), 9 | 2048))
    );
}

/// Guards against a lock held around the observer: a test that holds one call back would hang all others.
#[test]
fn a_call_that_is_held_back_by_the_observer_holds_up_no_other() {
    let disk = zeros(8);
    let (reached, at_gate) = mpsc::channel();
    let (open_gate, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    disk.on_event(move |event, disk| {
        if event.kind == EventKind::WriteSynced {
            disk.write(4, b"from within").unwrap();
            reached.send(()).unwrap();
            gate.lock().unwrap().recv().unwrap();
        }
    });
    std::thread::scope(|scope| {
        let held = scope.spawn(|| disk.write_synced(0, b"held"));
        at_gate.recv().unwrap();
        disk.write(0, b"free").unwrap();
        disk.sync().unwrap();
        assert_eq!(after_power_loss(&disk), b"freefrom within");
        open_gate.send(()).unwrap();
        held.join().unwrap().unwrap();
    });
    assert_eq!(after_power_loss(&disk), b"heldfrom within");
}

#[test]
fn a_seed_gives_one_image_and_many_seeds_give_many() {
    let disk = zeros(64 * SECTOR);
    disk.write(100, &[5; 60 * SECTOR]).unwrap();
    let before = disk.image_hash();
    let hash = |seed| {
        disk.power_loss(seed, CrashPlan::Random { keep_percent: 50 })
            .image_hash()
    };
    let mut hashes: Vec<u64> = (0..500).map(hash).collect();
    assert_eq!(hashes, (0..500).map(hash).collect::<Vec<_>>());
    assert_eq!(disk.image_hash(), before, "the disk itself lives on");
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 500);
}
