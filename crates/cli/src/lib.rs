//! Command line of Nandu as a library function.
