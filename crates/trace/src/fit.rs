//! placeholder
/// Placeholder.
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct FitError;
