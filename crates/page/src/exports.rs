//! Exports for JavaScript. A connection is passed as a pointer, a text or a message as a pointer and a length.
//!
//! `web/engine/src/engine.js` is the only caller. Each buffer that a call takes was made by `deltic_alloc`; the call
//! frees the buffer. JavaScript calls no function while another one runs.

#![allow(unsafe_code, reason = "pointers are all that crosses the border of a WebAssembly module")]

use std::time::Duration;

use bytes::Bytes;

use crate::{Connection, HostFiles, NotRead, NotWritten, RequestError};

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// Reads at most `len` bytes of `file` at offset `at`. Returns the number of bytes, or -1 if the file changed.
    fn read(file: u32, at: f64, into: *mut u8, len: usize) -> i32;
    /// Writes `len` bytes to `file` at offset `at`. Returns 0, or -1 if the host cannot write.
    fn write(file: u32, at: f64, bytes: *const u8, len: usize) -> i32;
    /// Takes the reason, a text of `len` bytes, for which the module is about to trap.
    fn fail(reason: *const u8, len: usize);
}

/// Tells the host why the module panics. The module has no other output.
fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let reason = panic.to_string();
        // SAFETY: the host reads `len` bytes behind the pointer, both of which are those of `reason`.
        unsafe { fail(reason.as_ptr(), reason.len()) };
    }));
}

/// The files of the user, by the functions that the module imports.
#[derive(Clone, Copy, Debug)]
struct Imports;

impl HostFiles for Imports {
    fn read(&self, file: u32, at: u64, into: &mut [u8]) -> Result<usize, NotRead> {
        // SAFETY: the host writes at most `len` bytes behind the pointer, both of which are those of `into`.
        let got = unsafe { read(file, at as f64, into.as_mut_ptr(), into.len()) };
        usize::try_from(got).ok().filter(|got| *got <= into.len()).ok_or(NotRead)
    }

    fn write(&self, file: u32, at: u64, bytes: &[u8]) -> Result<(), NotWritten> {
        // SAFETY: the host reads `len` bytes behind the pointer, both of which are those of `bytes`.
        let written = unsafe { write(file, at as f64, bytes.as_ptr(), bytes.len()) };
        (written == 0).then_some(()).ok_or(NotWritten)
    }
}

/// A connection, and the bytes that JavaScript was given last.
pub struct Handle {
    connection: Connection<Imports>,
    output: Bytes,
}

impl Handle {
    /// Keeps `output` for JavaScript until the next call. Returns the length.
    fn give(&mut self, output: Option<Bytes>) -> usize {
        self.output = output.unwrap_or_default();
        self.output.len()
    }

    /// Starts a transfer. Returns the number of the transfer, or 0 with an event that tells the reason.
    fn begin(
        &mut self,
        begin: impl FnOnce(&mut Connection<Imports>) -> Result<u32, RequestError>,
    ) -> u32 {
        begin(&mut self.connection).unwrap_or_else(|error| {
            self.connection.refuse(&error);
            0
        })
    }
}

/// Returns the buffer of `len` bytes at `pointer`.
///
/// # Safety
/// The buffer was made by [`deltic_alloc`] with this length, and has no other user.
unsafe fn taken(pointer: *mut u8, len: usize) -> Box<[u8]> {
    // SAFETY: `deltic_alloc` leaked a box of this length, and the caller passes it once.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(pointer, len)) }
}

/// Returns a buffer of `len` zeros.
#[unsafe(no_mangle)]
pub extern "C" fn deltic_alloc(len: usize) -> *mut u8 {
    let bytes: Box<[u8]> = vec![0; len].into();
    Box::into_raw(bytes).cast()
}

/// Begins a connection with a token, in UTF-8.
///
/// # Safety
/// The buffer is as [`taken`] demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_connect(token: *mut u8, len: usize) -> *mut Handle {
    tell_panics();
    // SAFETY: passed on to the caller.
    let token = String::from_utf8_lossy(&unsafe { taken(token, len) }).into_owned();
    let connection = Connection::new(Imports, token);
    Box::into_raw(Box::new(Handle { connection, output: Bytes::new() }))
}

/// Frees a connection.
///
/// # Safety
/// `handle` was returned by [`deltic_connect`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_free(handle: *mut Handle) {
    // SAFETY: `deltic_connect` leaked this box, and the caller passes it once.
    drop(unsafe { Box::from_raw(handle) });
}

/// Takes a binary message of the socket.
///
/// # Safety
/// `handle` was returned by [`deltic_connect`]; the buffer is as [`taken`] demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_receive(handle: &mut Handle, message: *mut u8, len: usize) {
    // SAFETY: passed on to the caller.
    let message = unsafe { taken(message, len) };
    handle.connection.receive(Bytes::from(message));
}

/// Starts a push that a JSON text describes. Returns the number of the transfer, or 0.
///
/// # Safety
/// As [`deltic_receive`].
#[cfg(feature = "push")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_push(handle: &mut Handle, text: *mut u8, len: usize) -> u32 {
    // SAFETY: passed on to the caller.
    let text = unsafe { taken(text, len) };
    handle.begin(|connection| connection.push(serde_json::from_slice(&text)?))
}

/// Starts an append that a JSON text describes. Returns the number of the transfer, or 0.
///
/// # Safety
/// As [`deltic_receive`].
#[cfg(feature = "push")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_append(handle: &mut Handle, text: *mut u8, len: usize) -> u32 {
    // SAFETY: passed on to the caller.
    let text = unsafe { taken(text, len) };
    handle.begin(|connection| connection.append(&serde_json::from_slice(&text)?))
}

/// Starts a pull that a JSON text describes. Returns the number of the transfer, or 0.
///
/// # Safety
/// As [`deltic_receive`].
#[cfg(feature = "pull")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_pull(handle: &mut Handle, text: *mut u8, len: usize) -> u32 {
    // SAFETY: passed on to the caller.
    let text = unsafe { taken(text, len) };
    handle.begin(|connection| connection.pull(serde_json::from_slice(&text)?))
}

/// Returns a buffer with the plan for a synced folder that a JSON text describes: the length of the plan in four bytes,
/// little-endian, and the plan as JSON. [`deltic_release`] frees the buffer.
///
/// # Safety
/// The buffer is as [`taken`] demands.
#[cfg(feature = "pull")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_reconcile(text: *mut u8, len: usize) -> *mut u8 {
    tell_panics();
    // SAFETY: passed on to the caller.
    let text = unsafe { taken(text, len) };
    let plan = crate::plan(&text);
    let len = u32::try_from(plan.len()).expect("the memory of a module is below 4 GiB");
    let bytes: Box<[u8]> = [&len.to_le_bytes()[..], &plan].concat().into();
    Box::into_raw(bytes).cast()
}

/// Frees a buffer of `len` bytes.
///
/// # Safety
/// The buffer is of [`deltic_reconcile`], and is not used again; `len` counts the four bytes of the length too.
#[cfg(feature = "pull")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_release(pointer: *mut u8, len: usize) {
    // SAFETY: `deltic_reconcile` leaked a box of this length, and the caller passes it once.
    drop(unsafe { taken(pointer, len) });
}

/// Abandons a transfer.
#[unsafe(no_mangle)]
pub extern "C" fn deltic_close(handle: &mut Handle, channel: u32) {
    handle.connection.close(channel);
}

/// Ends all transfers, because the socket has ended for the reason in a text.
///
/// # Safety
/// As [`deltic_receive`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deltic_end(handle: &mut Handle, text: *mut u8, len: usize) {
    // SAFETY: passed on to the caller.
    let text = unsafe { taken(text, len) };
    handle.connection.end(&String::from_utf8_lossy(&text));
}

/// Lets the transfers work for a short time; `now` in milliseconds. Returns 1 if more work can be done at once.
#[unsafe(no_mangle)]
pub extern "C" fn deltic_turn(handle: &mut Handle, now: f64) -> u32 {
    let now = Duration::try_from_secs_f64(now / 1000.0).unwrap_or_default();
    handle.connection.turn(now).into()
}

/// Makes the next message for the socket the output. Returns the length of the message, 0 without one.
#[unsafe(no_mangle)]
pub extern "C" fn deltic_next_message(handle: &mut Handle) -> usize {
    let message = handle.connection.next_message();
    handle.give(message)
}

/// Makes the next event for the page, as JSON, the output. Returns the length of the event, 0 without one.
#[unsafe(no_mangle)]
pub extern "C" fn deltic_next_event(handle: &mut Handle) -> usize {
    let event = handle.connection.next_event();
    let text = event.map(|event| serde_json::to_vec(&event).expect("events are plain data"));
    handle.give(text.map(Bytes::from))
}

/// Returns the place of the output, which stays until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn deltic_output(handle: &Handle) -> *const u8 {
    handle.output.as_ptr()
}
