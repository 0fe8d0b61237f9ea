//! Protocol Buffers messages, encoded by hand: the few field types that a trace needs.

/// Wire types (protobuf.dev, "Encoding").
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Adds a number to a field of type `uint64`, `uint32`, `bool` or enum, or a number from 0 to one of type `int32`.
    pub fn number(mut self, field: u64, value: u64) -> Message {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    /// Adds eight bytes to a field of type `fixed64`.
    pub fn fixed(mut self, field: u64, value: u64) -> Message {
        self.key(field, FIXED_64);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a string.
    pub fn text(self, field: u64, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    /// Adds a message.
    pub fn message(self, field: u64, message: Message) -> Message {
        self.bytes(field, &message.0)
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    /// Writes seven bits per byte, the lowest first; the highest bit says that another byte follows.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the encoding's own documentation.
    #[test]
    fn fields_are_those_of_the_documentation() {
        assert_eq!(Message::default().number(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(
            Message::default().text(2, "testing").into_bytes(),
            [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]
        );
        let inner = Message::default().number(1, 150);
        assert_eq!(Message::default().message(3, inner).into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().fixed(47, 1).into_bytes(), [0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0]);
        let ten = Message::default().number(1, u64::MAX).into_bytes();
        assert_eq!((ten.len(), ten[10]), (11, 0x01));
    }
}
