//! Arrays: machines that make one device out of several, or of a part.

pub mod slice;
