//! `nandu schema`: the JSON schema of stack files.

use crate::failure::Failure;
use crate::output;

/// Prints the schema.
pub fn schema() -> Result<(), Failure> {
    output::print_json(&nandu_stack::schema(crate::registry()))
}
