//! Randomness that can be split: a chain hands each of its threads a sequence of its own.

/// splitmix64: its state is not its output, so that a split off sequence does not run into its parent's.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.any() % end
    }

    /// True once in `turns`.
    pub fn one_in(&mut self, turns: u64) -> bool {
        self.below(turns) == 0
    }

    pub fn split(&mut self) -> Dice {
        Dice(self.any())
    }
}
