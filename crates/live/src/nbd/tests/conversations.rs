//! Whole sessions, byte by byte.
//!
//! `conversations/*.txt`: a line `knobs` for [`check::exports`], then turns: `S:` server, `C:` client. A turn goes on
//! until the next one starts. Bytes are hex, text in quotes, or `00*124` for a repeated byte; `;` starts a comment.

use super::check;
use super::driver::Memory;

/// A session: its name, the knobs of its exports, and who says what.
pub struct Conversation {
    pub name: &'static str,
    pub knobs: u8,
    pub turns: Vec<(Side, Vec<u8>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Client,
    Server,
}

impl Conversation {
    /// All that the client says.
    pub fn client_stream(&self) -> Vec<u8> {
        let client = self.turns.iter().filter(|(side, _)| *side == Side::Client);
        client.flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }

    fn parse(name: &'static str, text: &str) -> Conversation {
        let mut conversation = Conversation { name, knobs: 0, turns: Vec::new() };
        for line in text.lines() {
            let line = line.split(';').next().unwrap_or_default().trim();
            let rest = if let Some(knobs) = line.strip_prefix("knobs") {
                conversation.knobs = hex(knobs.trim())[0];
                continue;
            } else if let Some(rest) = line.strip_prefix("S:") {
                conversation.turns.push((Side::Server, Vec::new()));
                rest
            } else if let Some(rest) = line.strip_prefix("C:") {
                conversation.turns.push((Side::Client, Vec::new()));
                rest
            } else {
                line
            };
            if !rest.is_empty() {
                conversation.turns.last_mut().expect("a turn has started").1.extend(bytes(rest));
            }
        }
        conversation
    }
}

/// Every conversation there is.
pub fn all() -> Vec<Conversation> {
    [
        ("old_client", include_str!("conversations/old_client.txt")),
        ("no_zeroes", include_str!("conversations/no_zeroes.txt")),
        ("haggling", include_str!("conversations/haggling.txt")),
        ("modern_client", include_str!("conversations/modern_client.txt")),
        ("extended", include_str!("conversations/extended.txt")),
    ]
    .map(|(name, text)| Conversation::parse(name, text))
    .into()
}

/// Quoted text stands at every odd place between quotes.
fn bytes(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, part) in line.split('"').enumerate() {
        if i % 2 == 1 {
            bytes.extend(part.as_bytes());
            continue;
        }
        for word in part.split_whitespace() {
            match word.split_once('*') {
                Some((byte, times)) => bytes.extend(hex(byte).repeat(times.parse().expect("a count"))),
                None => bytes.extend(hex(word)),
            }
        }
    }
    bytes
}

fn hex(word: &str) -> Vec<u8> {
    assert!(word.len().is_multiple_of(2), "{word:?} has an odd number of digits");
    (0..word.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&word[i..i + 2], 16).unwrap_or_else(|_| panic!("{word:?} is not hex")))
        .collect()
}

/// A hex dump with text, for failures.
fn dump(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex} | {}", bytes.escape_ascii())
}

#[test]
fn the_server_keeps_to_the_script() {
    for conversation in all() {
        let (mut server, mut said) = Memory::connect(check::exports(conversation.knobs));
        for (i, (side, bytes)) in conversation.turns.iter().enumerate() {
            let name = conversation.name;
            match side {
                Side::Client => {
                    said.extend(
                        server.say(bytes).unwrap_or_else(|error| panic!("{name}, turn {i}: {error}")),
                    );
                }
                Side::Server => {
                    assert_eq!(dump(&said), dump(bytes), "{name}, turn {i}: said (left), expected (right)");
                    said.clear();
                }
            }
        }
        assert!(said.is_empty(), "{}: the server adds {}", conversation.name, dump(&said));
    }
}

#[test]
fn cutting_a_conversation_changes_nothing() {
    for conversation in all() {
        for seed in 0..20 {
            let mut input = vec![conversation.knobs, seed];
            input.extend(conversation.client_stream());
            check::check(&input);
        }
    }
}
