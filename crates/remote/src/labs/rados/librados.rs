//! Bindings of librados, which is loaded on first use. All unsafe code of this crate is here.
//!
//! Functions and types are those of `rados/librados.h`, which is stable across versions. `time_t` has 64 bits on all
//! platforms of Deltic. Each call blocks. Threads may share a cluster handle; each call here has an IO context of its
//! own.
#![allow(unsafe_code, reason = "calls of a library of C; docs/ARCHITECTURE.md lists this file")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

/// File name of the library.
pub(super) const LIBRARY: &str =
    if cfg!(target_os = "macos") { "librados.2.dylib" } else { "librados.so.2" };

type Handle = *mut c_void;
type Text = *const c_char;

/// Declares the functions in use, as function pointers into the library.
macro_rules! calls {
    ($($name:ident($($arg:ty),*) $(-> $back:ty)?;)*) => {
        #[derive(Debug)]
        struct LibradosCalls { $($name: unsafe extern "C" fn($($arg),*) $(-> $back)?,)* }

        impl LibradosCalls {
            /// Looks up all functions.
            ///
            /// # Safety
            /// The library is librados, and is never closed.
            unsafe fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the caller guarantees that the library is librados; its header declares these types.
                unsafe { Ok(Self { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* }) }
            }
        }
    };
}

calls! {
    rados_create(*mut Handle, Text) -> c_int;
    rados_conf_read_file(Handle, Text) -> c_int;
    rados_conf_parse_env(Handle, Text) -> c_int;
    rados_conf_set(Handle, Text, Text) -> c_int;
    rados_connect(Handle) -> c_int;
    rados_shutdown(Handle);
    rados_ioctx_create(Handle, Text, *mut Handle) -> c_int;
    rados_ioctx_destroy(Handle);
    rados_stat(Handle, Text, *mut u64, *mut i64) -> c_int;
    rados_get_last_version(Handle) -> u64;
    rados_nobjects_list_open(Handle, *mut Handle) -> c_int;
    rados_nobjects_list_next(Handle, *mut Text, *mut Text, *mut Text) -> c_int;
    rados_nobjects_list_close(Handle);
    rados_create_read_op() -> Handle;
    rados_release_read_op(Handle);
    rados_read_op_assert_version(Handle, u64);
    rados_read_op_read(Handle, u64, usize, *mut c_char, *mut usize, *mut c_int);
    rados_read_op_checksum(Handle, c_int, Text, usize, u64, usize, usize, *mut c_char, usize, *mut c_int);
    rados_read_op_operate(Handle, Handle, Text, c_int) -> c_int;
}

/// librados' number for the algorithm XXH64.
const XXH64: c_int = 1;

/// The errno of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub(super) c_int);

/// A connection to a cluster.
#[derive(Debug)]
pub(super) struct CephCluster {
    calls: &'static LibradosCalls,
    handle: Handle,
}

// SAFETY: librados documents that threads may share a cluster handle; the pointer never changes.
unsafe impl Send for CephCluster {}
// SAFETY: as for `Send`.
unsafe impl Sync for CephCluster {}

/// An IO context of a pool. Not for concurrent calls.
#[derive(Debug)]
pub(super) struct PoolContext<'a> {
    cluster: &'a CephCluster,
    handle: Handle,
}

/// Length of an object in bytes, time of its last write in seconds, and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectStat {
    pub(super) len: u64,
    pub(super) secs: i64,
    pub(super) version: u64,
}

/// The functions of the library, which is loaded once.
fn calls() -> Result<&'static LibradosCalls, String> {
    static LOADED: OnceLock<Result<LibradosCalls, String>> = OnceLock::new();
    let load = || {
        // SAFETY: the library of that name is Ceph's; its initialisers set up only its own state.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| error.to_string())?;
        // SAFETY: the library is librados. It is leaked, because its threads may outlive every handle.
        unsafe { LibradosCalls::find(Box::leak(Box::new(library))) }
            .map_err(|error| error.to_string())
    };
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn ok(code: c_int) -> Result<c_int, Errno> {
    if code < 0 { Err(Errno(-code)) } else { Ok(code) }
}

impl CephCluster {
    /// Loads the library and makes a handle with the usual configuration of Ceph, overridden by `settings`.
    ///
    /// # Errors
    /// Outer `Err`: the library cannot be loaded. Inner `Err`: librados refuses the configuration.
    pub(super) fn new(
        user: Option<&CStr>,
        settings: &[(&CStr, &CStr)],
    ) -> Result<Result<Self, Errno>, String> {
        let calls = calls()?;
        let mut handle = ptr::null_mut();
        let user = user.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: `handle` is valid for writes; the name is NUL-terminated, or null for the default user.
        if let Err(error) = ok(unsafe { (calls.rados_create)(&raw mut handle, user) }) {
            return Ok(Err(error));
        }
        // Dropping the value shuts the handle down when dropped.
        let cluster = Self { calls, handle };
        // SAFETY: the handle was made above; a null path stands for the default search path.
        let read = ok(unsafe { (calls.rados_conf_read_file)(handle, ptr::null()) });
        // SAFETY: as above; a null name stands for CEPH_ARGS.
        let parsed = ok(unsafe { (calls.rados_conf_parse_env)(handle, ptr::null()) });
        if let Err(error) = read.and(parsed) {
            return Ok(Err(error));
        }
        for (name, value) in settings {
            // SAFETY: both are NUL-terminated and copied by the call. An unknown setting is ignored.
            unsafe { (calls.rados_conf_set)(handle, name.as_ptr(), value.as_ptr()) };
        }
        Ok(Ok(cluster))
    }

    /// Connects to the cluster. Call it once.
    pub(super) fn connect(&self) -> Result<(), Errno> {
        // SAFETY: the handle is from `rados_create`.
        ok(unsafe { (self.calls.rados_connect)(self.handle) }).map(drop)
    }

    /// Opens a context of a pool. The cluster must be connected.
    pub(super) fn pool(&self, name: &CStr) -> Result<PoolContext<'_>, Errno> {
        let mut handle = ptr::null_mut();
        // SAFETY: the cluster is connected, the name is NUL-terminated, and `handle` is valid for writes.
        ok(unsafe {
            (self.calls.rados_ioctx_create)(self.handle, name.as_ptr(), &raw mut handle)
        })?;
        Ok(PoolContext { cluster: self, handle })
    }
}

impl Drop for CephCluster {
    fn drop(&mut self) {
        // SAFETY: contexts of pools borrow the cluster, so none is left.
        unsafe { (self.calls.rados_shutdown)(self.handle) };
    }
}

impl PoolContext<'_> {
    /// Length, time and version of an object.
    pub(super) fn stat(&self, name: &CStr) -> Result<ObjectStat, Errno> {
        let (mut len, mut secs) = (0, 0);
        let calls = self.cluster.calls;
        // SAFETY: the name is NUL-terminated, and both numbers are valid for writes.
        ok(unsafe { (calls.rados_stat)(self.handle, name.as_ptr(), &raw mut len, &raw mut secs) })?;
        // SAFETY: the context is open. The version is that of the last call, and no other thread uses this context.
        let version = unsafe { (calls.rados_get_last_version)(self.handle) };
        Ok(ObjectStat { len, secs, version })
    }

    /// Calls `each` with the name of each object in the pool, until `each` returns false.
    pub(super) fn names(&self, each: &mut dyn FnMut(&CStr) -> bool) -> Result<(), Errno> {
        let calls = self.cluster.calls;
        let mut list = ptr::null_mut();
        // SAFETY: the context is open, and `list` is valid for writes.
        ok(unsafe { (calls.rados_nobjects_list_open)(self.handle, &raw mut list) })?;
        let ended = loop {
            let mut name = ptr::null();
            // SAFETY: the list is open. The name is valid until the next call; null omits the other two results.
            let code = unsafe {
                (calls.rados_nobjects_list_next)(
                    list,
                    &raw mut name,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
            match ok(code) {
                Ok(_) if name.is_null() => break Ok(()),
                // SAFETY: the name is NUL-terminated and valid until the next call.
                Ok(_) if each(unsafe { CStr::from_ptr(name) }) => {}
                Ok(_) => break Ok(()),
                Err(NO_MORE) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // SAFETY: the list is open and not used again.
        unsafe { (calls.rados_nobjects_list_close)(list) };
        ended
    }

    /// Reads from `start` of an object into `buf`, and returns the number of bytes.
    ///
    /// # Errors
    /// `ERANGE` or `EOVERFLOW` if the object has another version.
    pub(super) fn read(
        &self,
        name: &CStr,
        version: u64,
        start: u64,
        buf: &mut [u8],
    ) -> Result<usize, Errno> {
        let (mut got, mut said) = (0, 0);
        let calls = self.cluster.calls;
        let op = ReadOp::new(calls, version);
        // SAFETY: `buf`, `got` and `said` are valid for writes until `operate` returns, which writes them.
        unsafe {
            (calls.rados_read_op_read)(
                op.handle,
                start,
                buf.len(),
                buf.as_mut_ptr().cast(),
                &raw mut got,
                &raw mut said,
            );
        }
        self.operate(&op, name)?;
        ok(said)?;
        Ok(got)
    }

    /// Requests the XXH64 of each unit of `parts` of an object, in an operation. A part is a multiple of `unit` long,
    /// or shorter than one unit.
    ///
    /// Returns for each part the number of checksums and the checksums, all little-endian.
    ///
    /// # Errors
    /// `ERANGE` or `EOVERFLOW` if the object has another version.
    pub(super) fn sums(
        &self,
        name: &CStr,
        version: u64,
        parts: &[Range<u64>],
        unit: usize,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        let len = |part: &Range<u64>| (part.end - part.start) as usize;
        let room = |part| (vec![0_u8; 4 + 8 * (len(part) / unit).max(1)], 0);
        let mut told: Vec<(Vec<u8>, c_int)> = parts.iter().map(room).collect();
        let calls = self.cluster.calls;
        let op = ReadOp::new(calls, version);
        let seed = [0_u8; 8];
        for ((sums, said), part) in told.iter_mut().zip(parts) {
            // SAFETY: the seed is copied, and the answer is cut to the length of `sums`. `sums` and `said` are elements
            // of `told`, which is not touched until `operate` returns; `operate` writes them.
            unsafe {
                (calls.rados_read_op_checksum)(
                    op.handle,
                    XXH64,
                    seed.as_ptr().cast(),
                    seed.len(),
                    part.start,
                    len(part),
                    // A part shorter than a unit is checksummed as one.
                    if len(part) < unit { 0 } else { unit },
                    sums.as_mut_ptr().cast(),
                    sums.len(),
                    &raw mut *said,
                );
            }
        }
        self.operate(&op, name)?;
        told.into_iter().map(|(sums, said)| ok(said).map(|_| sums)).collect()
    }

    fn operate(&self, op: &ReadOp, name: &CStr) -> Result<(), Errno> {
        // SAFETY: the operation is from `ReadOp::new`, the context is open, and the name is NUL-terminated.
        let code =
            unsafe { (op.calls.rados_read_op_operate)(op.handle, self.handle, name.as_ptr(), 0) };
        ok(code).map(drop)
    }
}

impl Drop for PoolContext<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is from `rados_ioctx_create` and not used again.
        unsafe { (self.cluster.calls.rados_ioctx_destroy)(self.handle) };
    }
}

/// A read operation on a version of an object.
struct ReadOp {
    calls: &'static LibradosCalls,
    handle: Handle,
}

impl ReadOp {
    fn new(calls: &'static LibradosCalls, version: u64) -> Self {
        // SAFETY: the call has no preconditions.
        let handle = unsafe { (calls.rados_create_read_op)() };
        // SAFETY: the operation was just made.
        unsafe { (calls.rados_read_op_assert_version)(handle, version) };
        Self { calls, handle }
    }
}

impl Drop for ReadOp {
    fn drop(&mut self) {
        // SAFETY: the handle is from `rados_create_read_op` and not used again.
        unsafe { (self.calls.rados_release_read_op)(self.handle) };
    }
}

/// A name as a C string; `None` if it contains a zero byte.
pub(super) fn text(name: &str) -> Option<CString> {
    CString::new(name).ok()
}

/// `ENOENT`: no such object, or the end of a list.
pub(super) const NOT_FOUND: Errno = Errno(2);
const NO_MORE: Errno = NOT_FOUND;
