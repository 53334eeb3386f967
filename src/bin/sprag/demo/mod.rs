//! `demo`.
use std::path::Path;
use crate::answer::Answer;
use crate::failure::Failure;
pub fn run(_file: Option<&Path>, _json: bool) -> Result<Answer, Failure> { Err(Failure::invalid("to come")) }
pub fn deliver_and_exit(_file: &Path, _technique: &str, _key: &str) -> Result<Answer, Failure> { Err(Failure::invalid("to come")) }
