//! A second fault, in the opening of what the first one left: the opening fails and changes nothing that matters, or it does
//! not fail; what a well disk then opens is the same.

use std::io;
use std::sync::Arc;

use sprag::Options;
use sprag::testkit::{CrashPlan, SimDisk};

use crate::model::reference::Answer;
use crate::random::Random;

use super::faults;
use super::life::{Fault, checked, shown};
use super::told::Told;

/// An image, and what may be in it.
pub struct Left<'a> {
    pub disk: &'a SimDisk,
    pub killed: bool,
    pub told: &'a Told,
    pub options: &'a dyn Fn() -> Options,
}

/// Lets every `stride`-th call of the opening fail, in each way. Gives the number of openings that met a fault.
pub fn every_place(left: &Left<'_>, stride: u64, random: &mut Random) -> Result<u64, String> {
    let clean = checked(&left.disk.kill(), (left.options)())?;
    let mut struck = 0;
    for (name, fault) in faults() {
        let mut n = random.below(stride);
        while one(left, &clean, fault(n), random).map_err(|what| format!("second fault {name}, n={n}: {what}"))? {
            struck += 1;
            n += stride;
        }
    }
    Ok(struck)
}

/// Says whether the fault struck.
fn one(left: &Left<'_>, clean: &[Answer], fault: Fault, random: &mut Random) -> Result<bool, String> {
    let disk = left.disk.kill();
    fault.arm(&disk, io::ErrorKind::Other);
    let mut seen = None;
    let struck = match (left.options)().open_on(Arc::new(disk.clone())) {
        Err(error) if error.kind() == fault.kind(io::ErrorKind::Other) => true,
        Err(error) => return Err(format!("the answer is {error:?}")),
        Ok(store) => {
            match shown(&store) {
                Ok(answers) => seen = Some(answers),
                Err(kind) if kind == fault.kind(io::ErrorKind::Other) && !fault.spares_reads() => {}
                Err(kind) => return Err(format!("opened and cannot be read: {kind:?}")),
            }
            disk.faults_fired() > 0
        }
    };
    disk.heal();
    if let Some(seen) = &seen {
        left.told.clone().found(left.killed, seen)?;
    }
    let cut = disk.power_loss(random.below(u64::MAX), CrashPlan::Any);
    let after = checked(&disk.kill(), (left.options)())?;
    if after != clean || seen.as_ref().is_some_and(|seen| *seen != after) {
        return Err("the next opening shows something else".to_owned());
    }
    let after = checked(&cut, (left.options)())?;
    match seen {
        Some(seen) if seen != after => Err("a power loss took what an opening showed".to_owned()),
        // A power loss after a kill takes what a power loss instead of it would have taken.
        _ => left.told.clone().found(false, &after).map(|()| struck),
    }
}
