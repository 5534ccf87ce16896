//! librados, which is loaded when somebody names a pool. All unsafe code of this crate is here.
//!
//! Calls and their types are those of `rados/librados.h`, which keeps them from one version to the next. `time_t` has
//! 64 bits wherever Deltic is built. Each call blocks. Threads may share the handle of a cluster, and each has a
//! context of its own here.
#![allow(unsafe_code, reason = "calls of a library of C; docs/ARCHITECTURE.md lists this file")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

/// Name of the library.
pub(super) const LIBRARY: &str =
    if cfg!(target_os = "macos") { "librados.2.dylib" } else { "librados.so.2" };

type Handle = *mut c_void;
type Text = *const c_char;

/// Declares the calls that are used, each a pointer into the library.
macro_rules! calls {
    ($($name:ident($($arg:ty),*) $(-> $back:ty)?;)*) => {
        #[derive(Debug)]
        struct LibradosCalls { $($name: unsafe extern "C" fn($($arg),*) $(-> $back)?,)* }

        impl LibradosCalls {
            /// Looks all of them up.
            ///
            /// # Safety
            /// The library is librados, and is never closed.
            unsafe fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the caller says what the library is; its header gives these calls these types.
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

/// XXH64.
const XXH64: c_int = 1;

/// Error of a call: a number that the system gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub(super) c_int);

/// A connection to a cluster.
#[derive(Debug)]
pub(super) struct CephCluster {
    calls: &'static LibradosCalls,
    handle: Handle,
}

// SAFETY: librados says of its handles that threads may share them; nothing here changes the pointer.
unsafe impl Send for CephCluster {}
// SAFETY: the same.
unsafe impl Sync for CephCluster {}

/// A pool, for one call after the other.
#[derive(Debug)]
pub(super) struct PoolContext<'a> {
    cluster: &'a CephCluster,
    handle: Handle,
}

/// Length of an object, when it was written, and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectStat {
    pub(super) len: u64,
    pub(super) secs: i64,
    pub(super) version: u64,
}

/// The calls, once the library is loaded.
fn calls() -> Result<&'static LibradosCalls, String> {
    static LOADED: OnceLock<Result<LibradosCalls, String>> = OnceLock::new();
    let load = || {
        // SAFETY: the library of that name is Ceph's; what it does when it is loaded is to set up its own state.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| error.to_string())?;
        // SAFETY: it is librados, and it is leaked: its threads may outlive whoever used it.
        unsafe { LibradosCalls::find(Box::leak(Box::new(library))) }
            .map_err(|error| error.to_string())
    };
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn ok(code: c_int) -> Result<c_int, Errno> {
    if code < 0 { Err(Errno(-code)) } else { Ok(code) }
}

impl CephCluster {
    /// Loads the library, reads its settings where it always looks for them, and makes them these.
    ///
    /// # Errors
    /// `Err` where there is no such library; within, where it refuses its settings.
    pub(super) fn new(
        user: Option<&CStr>,
        settings: &[(&CStr, &CStr)],
    ) -> Result<Result<Self, Errno>, String> {
        let calls = calls()?;
        let mut handle = ptr::null_mut();
        let user = user.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: `handle` is written to, and the name ends with a zero or is none, which stands for the usual user.
        if let Err(error) = ok(unsafe { (calls.rados_create)(&raw mut handle, user) }) {
            return Ok(Err(error));
        }
        // From here on it is shut down when it is dropped.
        let cluster = Self { calls, handle };
        // SAFETY: the handle was made above; no path stands for where it always looks.
        let read = ok(unsafe { (calls.rados_conf_read_file)(handle, ptr::null()) });
        // SAFETY: as above; no name stands for CEPH_ARGS.
        let parsed = ok(unsafe { (calls.rados_conf_parse_env)(handle, ptr::null()) });
        if let Err(error) = read.and(parsed) {
            return Ok(Err(error));
        }
        for (name, value) in settings {
            // SAFETY: both end with a zero, and are copied. A version that does not know one goes on without it.
            unsafe { (calls.rados_conf_set)(handle, name.as_ptr(), value.as_ptr()) };
        }
        Ok(Ok(cluster))
    }

    /// Connects, once.
    pub(super) fn connect(&self) -> Result<(), Errno> {
        // SAFETY: the handle is of `rados_create`.
        ok(unsafe { (self.calls.rados_connect)(self.handle) }).map(drop)
    }

    /// A pool of it, which must be connected.
    pub(super) fn pool(&self, name: &CStr) -> Result<PoolContext<'_>, Errno> {
        let mut handle = ptr::null_mut();
        // SAFETY: the handle is connected, the name ends with a zero, and `handle` is written to.
        ok(unsafe {
            (self.calls.rados_ioctx_create)(self.handle, name.as_ptr(), &raw mut handle)
        })?;
        Ok(PoolContext { cluster: self, handle })
    }
}

impl Drop for CephCluster {
    fn drop(&mut self) {
        // SAFETY: pools borrow this, so none is left.
        unsafe { (self.calls.rados_shutdown)(self.handle) };
    }
}

impl PoolContext<'_> {
    /// Looks at an object.
    pub(super) fn stat(&self, name: &CStr) -> Result<ObjectStat, Errno> {
        let (mut len, mut secs) = (0, 0);
        let calls = self.cluster.calls;
        // SAFETY: the name ends with a zero, and both numbers are written to.
        ok(unsafe { (calls.rados_stat)(self.handle, name.as_ptr(), &raw mut len, &raw mut secs) })?;
        // SAFETY: it is the version that the last call of this pool saw, and nobody else calls it.
        let version = unsafe { (calls.rados_get_last_version)(self.handle) };
        Ok(ObjectStat { len, secs, version })
    }

    /// Tells `each` the name of each object, as long as that says to go on.
    pub(super) fn names(&self, each: &mut dyn FnMut(&CStr) -> bool) -> Result<(), Errno> {
        let calls = self.cluster.calls;
        let mut list = ptr::null_mut();
        // SAFETY: the pool is open, and `list` is written to.
        ok(unsafe { (calls.rados_nobjects_list_open)(self.handle, &raw mut list) })?;
        let ended = loop {
            let mut name = ptr::null();
            // SAFETY: the list is open; the name is valid until the next call, and the other two are not asked for.
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
                // SAFETY: it is a text that ends with a zero, and is gone only by the next call.
                Ok(_) if each(unsafe { CStr::from_ptr(name) }) => {}
                Ok(_) => break Ok(()),
                Err(NO_MORE) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // SAFETY: the list is open, and is not used again.
        unsafe { (calls.rados_nobjects_list_close)(list) };
        ended
    }

    /// Reads a range of that version of an object; the bytes that came.
    pub(super) fn read(
        &self,
        (name, version): (&CStr, u64),
        start: u64,
        buf: &mut [u8],
    ) -> Result<usize, Errno> {
        let (mut got, mut said) = (0, 0);
        let calls = self.cluster.calls;
        let op = ReadOp::new(calls, version);
        // SAFETY: all three are written to while `operate` runs, which is before they end.
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

    /// XXH64 of the units of parts of that version, in one question. A part is whole units, or shorter than one. What
    /// came of each: the number of its sums, then these, with the last byte first.
    pub(super) fn sums(
        &self,
        (name, version): (&CStr, u64),
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
            // SAFETY: the seed is copied, and the answer is cut to the length of `sums`; both they and `said` are in
            // `told`, which outlives `operate` and is not touched until then. `operate` writes to them.
            unsafe {
                (calls.rados_read_op_checksum)(
                    op.handle,
                    XXH64,
                    seed.as_ptr().cast(),
                    seed.len(),
                    part.start,
                    len(part),
                    // What is no whole unit is summed for itself.
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
        // SAFETY: the question was made by `ReadOp::new`, the pool is open, and the name ends with a zero.
        let code =
            unsafe { (op.calls.rados_read_op_operate)(op.handle, self.handle, name.as_ptr(), 0) };
        ok(code).map(drop)
    }
}

impl Drop for PoolContext<'_> {
    fn drop(&mut self) {
        // SAFETY: it is of `rados_ioctx_create`, and not used again.
        unsafe { (self.cluster.calls.rados_ioctx_destroy)(self.handle) };
    }
}

/// A question about one version of an object.
struct ReadOp {
    calls: &'static LibradosCalls,
    handle: Handle,
}

impl ReadOp {
    fn new(calls: &'static LibradosCalls, version: u64) -> Self {
        // SAFETY: it needs nothing.
        let handle = unsafe { (calls.rados_create_read_op)() };
        // SAFETY: the question was just made.
        unsafe { (calls.rados_read_op_assert_version)(handle, version) };
        Self { calls, handle }
    }
}

impl Drop for ReadOp {
    fn drop(&mut self) {
        // SAFETY: it is of `rados_create_read_op`, and not used again.
        unsafe { (self.calls.rados_release_read_op)(self.handle) };
    }
}

/// The name as librados takes it; nothing where it holds a zero.
pub(super) fn text(name: &str) -> Option<CString> {
    CString::new(name).ok()
}

/// No such object, or no further one.
pub(super) const NOT_FOUND: Errno = Errno(2);
const NO_MORE: Errno = NOT_FOUND;
