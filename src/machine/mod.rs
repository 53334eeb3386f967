//! States of records and the moves between them: how a program declares a machine, and the form that the file keeps.
//!
//! A program declares an enum with [`machine!`](crate::machine!), or implements [`State`] by hand. The table type asks
//! [`StateOf`] only, which [`Stateless`] answers with nothing and every [`State`] with its machine. States are stored by
//! name, so the order in which they are declared means nothing.
//!
//! Not here: the decisions (`decide`), and who keeps the stored form and compares it.

pub mod decide;

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{STATE_NAME_BYTES_MAX, STATES_MAX};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::Debug;

/// A machine as a program declares it: constants only, so that it can be an associated constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineDef {
    name: &'static str,
    states: &'static [&'static str],
    initial: &'static str,
    moves: &'static [(&'static str, &'static str)],
    cyclic: bool,
}

impl MachineDef {
    /// Names the machine, its states, the state a record is created in, and the moves as (from, to).
    ///
    /// Nothing is judged here; a table that uses a machine which breaks a rule answers `Invalid` at its first use.
    pub const fn new(
        name: &'static str,
        states: &'static [&'static str],
        initial: &'static str,
        moves: &'static [(&'static str, &'static str)],
    ) -> MachineDef {
        MachineDef {
            name,
            states,
            initial,
            moves,
            cyclic: false,
        }
    }

    /// Allows moves that lead back to where they began. With a cycle, a repeat that is a full lap late is applied: add a
    /// version or a remembered key.
    #[must_use]
    pub const fn cyclic(mut self) -> MachineDef {
        self.cyclic = true;
        self
    }
}

/// An enum whose values are the states of a machine. [`machine!`](crate::machine!) writes this.
///
/// ```
/// use sprag::{MachineDef, State};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// enum Door { Open, Shut }
///
/// impl State for Door {
///     const MACHINE: MachineDef =
///         MachineDef::new("doors", &["open", "shut"], "shut", &[("open", "shut"), ("shut", "open")]).cyclic();
///
///     fn name(self) -> &'static str {
///         match self {
///             Door::Open => "open",
///             Door::Shut => "shut",
///         }
///     }
///
///     fn from_name(name: &str) -> Option<Door> {
///         [Door::Open, Door::Shut].into_iter().find(|door| door.name() == name)
///     }
/// }
/// ```
pub trait State: Copy + Eq + Debug + Send + Sync + 'static {
    /// The machine: it names exactly the states that [`name`](State::name) gives.
    const MACHINE: MachineDef;

    /// The name under which this state is stored.
    fn name(self) -> &'static str;

    /// The state of this name. Must give back every state whose name it is asked for.
    fn from_name(name: &str) -> Option<Self>;
}

/// The state parameter of a table whose records have no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stateless;

/// What a table asks of its state parameter: [`Stateless`], or a type that implements [`State`].
pub trait StateOf: sealed::Sealed + 'static {
    /// What reading a record gives for its state: `()`, or the state.
    type Value: Copy + Debug + PartialEq + Send + Sync + 'static;

    /// The machine, judged.
    ///
    /// # Errors
    /// `Invalid` if the declaration breaks a rule; the message names it.
    fn machine() -> Result<Option<Machine>>;

    /// The name to store for a state.
    fn name(value: &Self::Value) -> Option<&'static str>;

    /// The state of a stored name.
    ///
    /// # Errors
    /// `Schema` if the record has a state that the program does not know, or none where the program expects one.
    fn parse(stored: Option<&str>) -> Result<Self::Value>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Stateless {}
    impl<S: super::State> Sealed for S {}
}

impl StateOf for Stateless {
    type Value = ();

    fn machine() -> Result<Option<Machine>> {
        Ok(None)
    }

    fn name(_value: &()) -> Option<&'static str> {
        None
    }

    fn parse(stored: Option<&str>) -> Result<()> {
        match stored {
            None => Ok(()),
            Some(state) => Err(Error::new(
                ErrorKind::Schema,
                format!("record has a state and its table declares none, state={state}"),
            )),
        }
    }
}

impl<S: State> StateOf for S {
    type Value = S;

    fn machine() -> Result<Option<Machine>> {
        Machine::from_def(&S::MACHINE).map(Some)
    }

    fn name(value: &S) -> Option<&'static str> {
        Some(State::name(*value))
    }

    fn parse(stored: Option<&str>) -> Result<S> {
        let machine = S::MACHINE.name;
        match stored {
            Some(name) => S::from_name(name).ok_or_else(|| {
                Error::new(
                    ErrorKind::Schema,
                    format!("program does not know this state, state={name}, machine={machine}"),
                )
            }),
            None => Err(Error::new(
                ErrorKind::Schema,
                format!("record has no state, machine={machine}"),
            )),
        }
    }
}

/// A machine as the file keeps it. States are held once, by name; all else refers to them by their place in that list.
///
/// A value that came from bytes need not keep the rules: call [`Machine::validate`] before anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    name: String,
    states: Vec<String>,
    initial: u32,
    moves: Vec<(u32, u32)>,
    cyclic: bool,
}

impl Machine {
    /// The stored form of a declaration that keeps every rule.
    ///
    /// # Errors
    /// `Invalid` as [`Machine::validate`], and for an initial state or a move that names an unknown state.
    pub fn from_def(def: &MachineDef) -> Result<Machine> {
        let states = def.states.iter().map(|state| (*state).to_owned()).collect();
        Machine::build(def.name, states, def.initial, def.moves, def.cyclic)
    }

    /// A machine from its parts, with states by name.
    ///
    /// # Errors
    /// As [`Machine::from_def`].
    pub(crate) fn build(
        name: &str,
        states: Vec<String>,
        initial: &str,
        moves: &[(impl AsRef<str>, impl AsRef<str>)],
        cyclic: bool,
    ) -> Result<Machine> {
        if states.len() > STATES_MAX {
            return Err(too_many_states(name, states.len()));
        }
        let place = |state: &str| match states.iter().position(|known| known == state) {
            Some(place) => Ok(place as u32),
            None => Err(invalid(name, format_args!("unknown state, state={state}"))),
        };
        let moves = moves
            .iter()
            .map(|(from, to)| Ok((place(from.as_ref())?, place(to.as_ref())?)))
            .collect::<Result<_>>();
        let machine = Machine {
            name: name.to_owned(),
            initial: place(initial)?,
            moves: moves?,
            states,
            cyclic,
        };
        machine.validate()?;
        Ok(machine)
    }

    /// Judges every rule of a machine.
    ///
    /// # Errors
    /// `Invalid`: a name is empty, too long or given twice; no state, or more than [`STATES_MAX`]; a move that is listed
    /// twice, names no state, or leads to where it starts; a cycle in a machine that is not declared cyclic.
    pub fn validate(&self) -> Result<()> {
        let refused = |what: std::fmt::Arguments<'_>| Err(invalid(&self.name, what));
        if self.states.len() > STATES_MAX {
            return Err(too_many_states(&self.name, self.states.len()));
        }
        let mut seen = HashSet::new();
        for name in self.states.iter().chain([&self.name]) {
            if name.is_empty() || name.len() > STATE_NAME_BYTES_MAX {
                return refused(format_args!(
                    "name has {} bytes, bytes_min=1, bytes_max={STATE_NAME_BYTES_MAX}",
                    name.len()
                ));
            }
        }
        if let Some(twice) = self.states.iter().find(|state| !seen.insert(state.as_str())) {
            return refused(format_args!("state is named twice, state={twice}"));
        }
        if self.state(self.initial).is_none() {
            return refused(format_args!("no such initial state, states={}", self.states.len()));
        }
        let mut seen = HashSet::new();
        for &(from, to) in &self.moves {
            let (Some(from_name), Some(to_name)) = (self.state(from), self.state(to)) else {
                return refused(format_args!("move names no state, from={from}, to={to}"));
            };
            if from == to {
                return refused(format_args!("move leads to where it starts, state={from_name}"));
            }
            if !seen.insert((from, to)) {
                return refused(format_args!("move is listed twice, from={from_name}, to={to_name}"));
            }
        }
        match self.state_on_a_cycle() {
            Some(state) if !self.cyclic => {
                refused(format_args!("cycle in a machine not declared cyclic, state={state}"))
            }
            _ => Ok(()),
        }
    }

    /// Name of the machine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the states, in the order in which the file first heard of them.
    pub fn states(&self) -> &[String] {
        &self.states
    }

    /// Name of the state in which a record is created.
    pub fn initial(&self) -> &str {
        // Cannot be missing in a machine that was judged.
        self.state(self.initial).unwrap_or_default()
    }

    /// The moves, by name.
    pub fn moves(&self) -> impl Iterator<Item = (&str, &str)> {
        self.moves
            .iter()
            .filter_map(|&(from, to)| Some((self.state(from)?, self.state(to)?)))
    }

    /// Whether moves may lead back to where they began.
    pub fn is_cyclic(&self) -> bool {
        self.cyclic
    }

    /// Whether there is a state of this name.
    pub fn has_state(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// Whether one move leads from the one state to the other.
    pub fn has_move(&self, from: &str, to: &str) -> bool {
        match (self.place(from), self.place(to)) {
            (Some(from), Some(to)) => self.moves.contains(&(from, to)),
            _ => false,
        }
    }

    fn place(&self, name: &str) -> Option<u32> {
        self.states
            .iter()
            .position(|state| state == name)
            .and_then(|place| u32::try_from(place).ok())
    }

    fn state(&self, place: u32) -> Option<&str> {
        self.states.get(usize::try_from(place).ok()?).map(String::as_str)
    }

    /// A state on a cycle, if there is one. A state that no move leads to is on none, so it leaves with its moves, again
    /// and again; without a cycle nothing is left to be searched.
    fn state_on_a_cycle(&self) -> Option<&str> {
        let mut moves = self.moves.clone();
        loop {
            let before = moves.len();
            let mut entered = vec![false; self.states.len()];
            for &(_, to) in &moves {
                if let Some(mark) = entered.get_mut(to as usize) {
                    *mark = true;
                }
            }
            moves.retain(|&(from, _)| entered.get(from as usize) == Some(&true));
            if moves.len() == before {
                break;
            }
        }
        (0..self.states.len() as u32)
            .find(|&place| decide::reaches(&moves, place, place))
            .and_then(|p| self.state(p))
    }
}

fn too_many_states(machine: &str, states: usize) -> Error {
    invalid(
        machine,
        format_args!("too many states, states={states}, states_max={STATES_MAX}"),
    )
}

fn invalid(machine: &str, what: std::fmt::Arguments<'_>) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("machine breaks a rule: {what}, machine={machine}"),
    )
}

/// Declares an enum whose values are the states of a machine, and the machine.
///
/// The names in quotes are what the file keeps: the machine's after the name of the enum, each state's after its variant.
/// Then the initial state, `cyclic;` if moves may lead back to where they began, and the moves.
///
/// ```
/// sprag::machine! {
///     /// Where an order stands.
///     pub enum OrderState: "orders" {
///         /// Just came in.
///         New = "new",
///         Packed = "packed",
///         Shipped = "shipped",
///         Cancelled = "cancelled",
///     }
///     initial New;
///     New => Packed, Cancelled;
///     Packed => Shipped, Cancelled;
/// }
/// use sprag::State;
/// assert_eq!(OrderState::Packed.name(), "packed");
/// assert_eq!(OrderState::from_name("shipped"), Some(OrderState::Shipped));
/// ```
#[macro_export]
macro_rules! machine {
    (
        $(#[$meta:meta])*
        $vis:vis enum $state:ident : $machine:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $name:literal ),+ $(,)?
        }
        initial $initial:ident;
        $( $from:ident => $($to:ident),+ ; )*
    ) => {
        $crate::machine! { @declare [] $(#[$meta])* $vis enum $state : $machine {
            $( $(#[$variant_meta])* $variant = $name ),+ } initial $initial; $( $from => $($to),+ ; )* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $state:ident : $machine:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $name:literal ),+ $(,)?
        }
        initial $initial:ident;
        cyclic;
        $( $from:ident => $($to:ident),+ ; )*
    ) => {
        $crate::machine! { @declare [.cyclic()] $(#[$meta])* $vis enum $state : $machine {
            $( $(#[$variant_meta])* $variant = $name ),+ } initial $initial; $( $from => $($to),+ ; )* }
    };
    (
        @declare [$($cyclic:tt)*]
        $(#[$meta:meta])*
        $vis:vis enum $state:ident : $machine:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $name:literal ),+
        }
        initial $initial:ident;
        $( $from:ident => $($to:ident),+ ; )*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $state {
            $( $(#[$variant_meta])* #[doc = concat!("Stored as `", $name, "`.")] $variant, )+
        }

        impl $state {
            const fn stored_name(self) -> &'static str {
                match self {
                    $( $state::$variant => $name, )+
                }
            }
        }

        impl $crate::State for $state {
            const MACHINE: $crate::MachineDef = $crate::MachineDef::new(
                $machine,
                &[ $( $name ),+ ],
                $state::$initial.stored_name(),
                &[ $( $( ($state::$from.stored_name(), $state::$to.stored_name()), )+ )* ],
            ) $($cyclic)*;

            fn name(self) -> &'static str {
                self.stored_name()
            }

            fn from_name(name: &str) -> ::core::option::Option<$state> {
                match name {
                    $( $name => ::core::option::Option::Some($state::$variant), )+
                    _ => ::core::option::Option::None,
                }
            }
        }
    };
}
