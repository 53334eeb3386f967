//! The SQL of the guide, run by SQLite: behind a statement stands what it gives.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// The rows of a statement, their columns divided as the shell of SQLite does.
fn rows(connection: &Connection, statement: &str) -> String {
    let mut prepared = connection.prepare(statement).expect(statement);
    let columns = prepared.column_count();
    let mut found = prepared.query([]).expect(statement);
    let mut lines = Vec::new();
    while let Some(row) = found.next().expect(statement) {
        let cells = (0..columns).map(|column| match row.get_ref(column).expect(statement) {
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("a cell that the guide does not show, {other:?}"),
        });
        lines.push(cells.collect::<Vec<_>>().join("|"));
    }
    lines.join("\n")
}

#[test]
fn the_sql_of_the_guide_gives_what_stands_behind_it() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/from-sqlite.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut shown = 0;
    for block in page.split("```sql\n").skip(1) {
        let block = block.split("```").next().expect("a block");
        let connection = Connection::open_in_memory().expect("a database");
        let mut statement = String::new();
        for line in block.lines() {
            let (code, comment) = line.split_once("--").unwrap_or((line, ""));
            statement.push_str(code);
            statement.push('\n');
            if !code.trim_end().ends_with(';') {
                continue;
            }
            let given = rows(&connection, &statement);
            let wanted = comment.split(':').next().unwrap_or_default().trim();
            assert_eq!(given, wanted, "{statement}");
            shown += usize::from(!given.is_empty());
            statement.clear();
        }
        assert_eq!(statement.trim(), "", "a statement without an end");
    }
    assert_eq!(shown, 10, "statements whose rows are shown");
}
