//! The connection between a client and a server, without IO: messages and their channels, control messages, updates
//! and tokens. A server, a command-line client and a page in a browser share this code.
//!
//! ```text
//!  other end ─ message ─► Channels::receive ─► Event::Bytes, Event::End, Event::Whole ─► readers of channels
//!                                           ─► Event::Control ─► ClientEnd or ServerEnd ─► a control message
//!  other end ◄─ message ─ Outgoing::message ◄─ bytes of a channel
//!            ◄─ message ─ FromClient, FromServer::message
//! ```
//!
//! No call waits, reads a clock or holds a queue. The caller owns the socket, hands in each message and the time
//! since the connection started, and sends the returned messages.

pub mod changes;
pub mod channels;
pub mod control;
pub mod ends;
pub mod message;
pub mod token;
pub mod update;

/// Name of the protocol over a WebSocket, negotiated by `Sec-WebSocket-Protocol`.
pub const SUBPROTOCOL: &str = "deltic.1";

/// Path of the WebSocket on a server.
pub const SOCKET_PATH: &str = "/v1/ws";
