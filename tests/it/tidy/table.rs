//! The layer table of `docs/ARCHITECTURE.md`, as data.
//!
//! What a table may say is judged here, so that a circle cannot even be written down: a row names only modules of layers
//! that stand above its own.

use std::collections::BTreeMap;

/// Which module may import which, by name.
#[derive(Debug)]
pub struct Table {
    rows: BTreeMap<String, Row>,
}

#[derive(Debug)]
struct Row {
    may_import: Vec<String>,
}

impl Table {
    /// Reads the first table whose head is `layer | module | owns | may import`; an error is all that is wrong with it.
    pub fn parse(document: &str) -> Result<Table, Vec<String>> {
        let mut lines = document.lines().map(cells).skip_while(|cells| !is_head(cells));
        lines
            .next()
            .ok_or_else(|| vec!["no table with the columns layer, module, owns, may import".to_owned()])?;
        let mut table = Table { rows: BTreeMap::new() };
        let mut layers: Vec<String> = Vec::new();
        let mut layer_of: BTreeMap<String, usize> = BTreeMap::new();
        let mut wrong = Vec::new();
        for cells in lines.skip(1).take_while(|cells| !cells.is_empty()) {
            let [layer, module, owns, may_import] = cells.as_slice() else {
                wrong.push(format!("a row has {} cells instead of 4: {cells:?}", cells.len()));
                continue;
            };
            let Some(name) = one_name(module) else {
                wrong.push(format!("a row must own one module in backticks, not {module:?}"));
                continue;
            };
            if owns.is_empty() {
                wrong.push(format!("the row of {name} does not say what it owns"));
            }
            if layers.last() != Some(layer) {
                layers.push(layer.clone());
            }
            let imports = names(may_import);
            if imports.is_empty() && may_import != "-" {
                wrong.push(format!(
                    "the row of {name} names no module and is not `-`: {may_import:?}"
                ));
            }
            for import in &imports {
                if layer_of.get(import).is_none_or(|rank| *rank == layers.len()) {
                    wrong.push(format!(
                        "the row of {name} names {import}, which stands in no layer above it"
                    ));
                }
            }
            if layer_of.insert(name.clone(), layers.len()).is_some() {
                wrong.push(format!("{name} has two rows"));
            }
            table.rows.insert(name, Row { may_import: imports });
        }
        if wrong.is_empty() { Ok(table) } else { Err(wrong) }
    }

    /// Whether the module has a row.
    pub fn knows(&self, module: &str) -> bool {
        self.rows.contains_key(module)
    }

    /// Whether a file of module `from` may name module `to`. A module may always name itself.
    pub fn allows(&self, from: &str, to: &str) -> bool {
        from == to
            || self
                .rows
                .get(from)
                .is_some_and(|row| row.may_import.iter().any(|name| name == to))
    }

    /// The modules that have a row.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }
}

fn is_head(cells: &[String]) -> bool {
    cells == ["layer", "module", "owns", "may import"]
}

/// The cells of a table line; none for any other line.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    inner.map_or_else(Vec::new, |inner| {
        inner.split('|').map(|cell| cell.trim().to_owned()).collect()
    })
}

/// The names in backticks.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn one_name(cell: &str) -> Option<String> {
    let names = names(cell);
    (names.len() == 1 && cell == format!("`{}`", names[0])).then(|| names[0].clone())
}
