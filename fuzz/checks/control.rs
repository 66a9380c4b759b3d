//! Any bytes as a line of the control socket: a command that is read again as it is written, or an error that says what there is.

use nandu_live::ctl::Command;

/// The bytes as the server takes them: what is no UTF-8 is replaced.
pub fn check(input: &[u8]) {
    let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match String::from_utf8_lossy(line).parse::<Command>() {
        Ok(command) => assert_eq!(
            command.to_string().parse(),
            Ok(command.clone()),
            "`{command}` is read as something else"
        ),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
