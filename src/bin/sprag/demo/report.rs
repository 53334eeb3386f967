//! The demo's rows as people read them.

use crate::answer::plain;

use super::technique::Technique;
use super::{Report, Row};

pub fn text(report: &Report) -> String {
    let mut lines = vec![
        "One message: \"the balance grows by 40\". It is at 100 and version 7, and must end at 140 and version 8,"
            .to_owned(),
        "however often the message comes.".to_owned(),
    ];
    for technique in Technique::ALL {
        let rows = report.rows.iter().filter(|row| row.technique == technique.name());
        lines.push(String::new());
        lines.push(format!("{}: {}", technique.name(), technique.explained()));
        lines.push("  deliveries   before  after  version  expected".to_owned());
        lines.extend(rows.map(row_text));
    }
    lines.push(String::new());
    lines.push(match report.rows.iter().filter(|row| !row.as_expected).count() {
        0 => "Every row is as expected.".to_owned(),
        wrong => format!("{wrong} of {} rows are NOT as expected.", report.rows.len()),
    });
    lines.push(format!(
        "Look for yourself: sprag get {} 'remembered key' 11 --long",
        plain(&report.file)
    ));
    lines.push(format!(
        "The {} stays; remove it when you have looked.",
        plain(&report.stays)
    ));
    lines.join("\n")
}

fn row_text(row: &Row) -> String {
    let Row {
        deliveries,
        before,
        after,
        version,
        expected,
        ..
    } = row;
    let verdict = if row.as_expected {
        "as expected"
    } else {
        "NOT AS EXPECTED"
    };
    let mut text = format!("  {deliveries:<11}  {before:>6}  {after:>5}  {version:>7}  {expected:>8}  {verdict}");
    let kills = row.absent + row.present;
    if kills > 0 {
        text.push_str(&format!(
            "; killed {kills} times, {} before the commit, {} behind it",
            row.absent, row.present
        ));
    }
    text
}
