//! The winning stack as a file that runs at once.

use nandu_stack::StackFile;

/// The text of `file` below a comment of these lines.
pub fn text(comment: &str, file: &StackFile) -> String {
    let head: String =
        comment.lines().map(|line| format!("# {line}").trim_end().to_string() + "\n").collect();
    format!("{head}\n{}", file.to_text())
}
