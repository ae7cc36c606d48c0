//! Safe wrappers of libibverbs, which is loaded at run time. This file has all unsafe code of the fabric.
//!
//! The library is loaded on demand: a machine without rdma-core gets an error message, and the build does not need
//! rdma-core. It is loaded once and never unloaded, so its functions live as long as the process.
//!
//! **Ownership.** Each object owns its handle, destroys it on drop, and holds an `Arc` of everything that the
//! library needs longer: a queue pair holds its completion queues and its domain, a domain its context. So no
//! object ends too early, and the rule of the verbs "destroy children first" holds by construction.
//!
//! **Threads.** libibverbs serialises calls on one object, so handles may move between threads (`ibv_post_send(3)` and
//! the other calls are thread safe). This crate shares between threads only objects that are created and registered
//! once.
//!
//! **Memory.** A device reads and writes registered memory at any time. All registered memory is a [`Mapping`], into
//! which no reference exists and which lives as long as its registration. The device checks the key and the address of
//! every request against a live registration: a request with a wrong one fails, and writes nothing.

use super::abi::sys::{self as abi, numbers};
use crate::fork::ForkCount;
use crate::shm::Mapping;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Once, OnceLock};

/// The file name of the library.
const LIBRARY: &CStr = c"libibverbs.so.1";

/// Declares a table of a library's exported functions, and its loader.
macro_rules! library {
    ($library:ident: $($name:ident: $symbol:literal, fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// Exported functions of the library.
        pub(in crate::rdma) struct Functions {
            $(pub(in crate::rdma) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Functions {
            /// Loads the library, which is never unloaded, and resolves all functions.
            fn load() -> Result<Self, String> {
                let library = load($library)?;
                $(
                    let found = symbol(library, $library, $symbol)?;
                    // SAFETY: the symbol is that function of the library's header, whose type is beside its
                    // name; pointers to data and to functions have one size on every system that has `dlsym`.
                    let $name = unsafe {
                        std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(found)
                    };
                )*
                Ok(Self { $($name,)* })
            }
        }
    };
}

pub(super) use library;

library! {
    LIBRARY:
    get_device_list: c"ibv_get_device_list", fn(*mut c_int) -> *mut *mut abi::Device;
    free_device_list: c"ibv_free_device_list", fn(*mut *mut abi::Device);
    get_device_name: c"ibv_get_device_name", fn(*mut abi::Device) -> *const c_char;
    open_device: c"ibv_open_device", fn(*mut abi::Device) -> *mut abi::Context;
    close_device: c"ibv_close_device", fn(*mut abi::Context) -> c_int;
    query_device: c"ibv_query_device", fn(*mut abi::Context, *mut abi::DeviceAttr) -> c_int;
    query_port: c"ibv_query_port", fn(*mut abi::Context, u8, *mut abi::PortAttr) -> c_int;
    query_gid_ex: c"_ibv_query_gid_ex", fn(*mut abi::Context, u32, u32, *mut abi::GidEntry, u32, usize) -> c_int;
    alloc_pd: c"ibv_alloc_pd", fn(*mut abi::Context) -> *mut abi::Pd;
    dealloc_pd: c"ibv_dealloc_pd", fn(*mut abi::Pd) -> c_int;
    reg_mr: c"ibv_reg_mr", fn(*mut abi::Pd, *mut c_void, usize, c_int) -> *mut abi::Mr;
    dereg_mr: c"ibv_dereg_mr", fn(*mut abi::Mr) -> c_int;
    create_comp_channel: c"ibv_create_comp_channel", fn(*mut abi::Context) -> *mut abi::CompChannel;
    destroy_comp_channel: c"ibv_destroy_comp_channel", fn(*mut abi::CompChannel) -> c_int;
    create_cq: c"ibv_create_cq",
        fn(*mut abi::Context, c_int, *mut c_void, *mut abi::CompChannel, c_int) -> *mut abi::Cq;
    destroy_cq: c"ibv_destroy_cq", fn(*mut abi::Cq) -> c_int;
    get_cq_event: c"ibv_get_cq_event", fn(*mut abi::CompChannel, *mut *mut abi::Cq, *mut *mut c_void) -> c_int;
    ack_cq_events: c"ibv_ack_cq_events", fn(*mut abi::Cq, u32);
    create_srq: c"ibv_create_srq", fn(*mut abi::Pd, *mut abi::SrqInitAttr) -> *mut abi::Srq;
    destroy_srq: c"ibv_destroy_srq", fn(*mut abi::Srq) -> c_int;
    create_qp: c"ibv_create_qp", fn(*mut abi::Pd, *mut abi::QpInitAttr) -> *mut abi::Qp;
    modify_qp: c"ibv_modify_qp", fn(*mut abi::Qp, *mut abi::QpAttr, c_int) -> c_int;
    destroy_qp: c"ibv_destroy_qp", fn(*mut abi::Qp) -> c_int;
    qp_to_qp_ex: c"ibv_qp_to_qp_ex", fn(*mut abi::Qp) -> *mut abi::QpEx;
}

/// Loads a library of rdma-core.
///
/// # Errors
/// The reason, and the remedy.
pub(super) fn load(library: &CStr) -> Result<NonNull<c_void>, String> {
    // SAFETY: loading runs the library's initialisers, as linking does; the name ends with a zero.
    let loaded = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    NonNull::new(loaded).ok_or_else(|| {
        let name = library.to_string_lossy();
        format!("{name} is not on this machine; install rdma-core (Debian: libibverbs1 ibverbs-providers)")
    })
}

/// Resolves a function of a library that [`load`] has loaded.
pub(super) fn symbol(
    loaded: NonNull<c_void>,
    library: &CStr,
    name: &CStr,
) -> Result<NonNull<c_void>, String> {
    // SAFETY: the library is loaded and never unloaded, and the name ends with a zero.
    let found = unsafe { libc::dlsym(loaded.as_ptr(), name.as_ptr()) };
    NonNull::new(found).ok_or_else(|| {
        let (library, name) = (library.to_string_lossy(), name.to_string_lossy());
        format!("{library} has no {name}; install rdma-core 32 or newer")
    })
}

/// Returns the library's functions, loaded once.
///
/// # Errors
/// The reason why the library is missing.
pub(super) fn functions() -> Result<&'static Functions, String> {
    static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
    LOADED.get_or_init(Functions::load).as_ref().map_err(Clone::clone)
}

/// Excludes registered memory from child processes: after a fork, copy-on-write could otherwise move a posting process
/// to copies of its pages. Must be called before a device is opened. Newer kernels need no call for this. If the
/// library lacks or refuses the call, no error is reported, and a process with a pool must not fork.
pub(super) fn keep_from_children() {
    static CALLED: Once = Once::new();
    CALLED.call_once(|| {
        let found = load(LIBRARY).and_then(|library| symbol(library, LIBRARY, c"ibv_fork_init"));
        if let Ok(found) = found {
            // SAFETY: the symbol is that function of the library's header; pointers to data and to functions
            // have one size.
            let init =
                unsafe { std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn() -> c_int>(found) };
            // SAFETY: it takes no arguments, and may be called at any time before memory is registered.
            let _ = unsafe { init() };
        }
    });
}

/// A handle of the library. Only the process that made it may destroy it: a forked child has the same open device, and
/// would destroy the object of its parent.
#[derive(Debug)]
pub(super) struct Handle<T> {
    object: NonNull<T>,
    forks: ForkCount,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> Handle<T> {
    /// Converts the result of a call that returns a null pointer and sets `errno`.
    pub(super) fn new(object: *mut T) -> io::Result<Self> {
        Ok(Self { object: non_null(object)?, forks: ForkCount::now() })
    }

    /// Returns the pointer.
    pub(super) fn as_ptr(self) -> *mut T {
        self.object.as_ptr()
    }

    /// Returns whether this process created it.
    pub(super) fn is_own(self) -> bool {
        self.forks.is_current()
    }
}

/// Converts the result of a call that returns a null pointer and sets `errno`.
pub(super) fn non_null<T>(object: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(object).ok_or_else(io::Error::last_os_error)
}

/// Converts the result of a call that returns an error number.
pub(super) fn check_errno(number: c_int) -> io::Result<()> {
    match number {
        0 => Ok(()),
        // Some calls return -1 and set `errno`.
        -1 => Err(io::Error::last_os_error()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

pub(super) fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// Returns the names of the machine's RDMA devices.
///
/// # Errors
/// The reason why rdma-core cannot list them.
pub(super) fn device_names() -> Result<Vec<String>, String> {
    with_devices(|functions, devices| {
        devices.iter().map(|&device| name_of(functions, device)).collect::<Vec<_>>()
    })
}

fn with_devices<T>(work: impl FnOnce(&Functions, &[*mut abi::Device]) -> T) -> Result<T, String> {
    let functions = functions()?;
    let mut count = 0;
    // SAFETY: the call writes one number through the pointer.
    let list = unsafe { (functions.get_device_list)(&raw mut count) };
    let Some(list) = NonNull::new(list) else {
        let why = io::Error::last_os_error();
        return Err(format!(
            "the system's RDMA devices cannot be listed: {why}; load ib_uverbs (modprobe ib_uverbs)"
        ));
    };
    // SAFETY: the library returned an array of `count` devices, which lives until it is freed below.
    let devices = unsafe { std::slice::from_raw_parts(list.as_ptr(), usize::try_from(count).unwrap_or(0)) };
    let result = work(functions, devices);
    // SAFETY: the list came from the library and is freed once; open contexts outlive it by the library's
    // rules.
    unsafe { (functions.free_device_list)(list.as_ptr()) };
    Ok(result)
}

fn name_of(functions: &Functions, device: *mut abi::Device) -> String {
    // SAFETY: the device is of a live list.
    let name = unsafe { (functions.get_device_name)(device) };
    // SAFETY: the name is a string that ends with a zero and lives as long as the device.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Reads a function of a context's extended table, if the library that made the context knows it and the
/// driver has it.
macro_rules! table_entry {
    ($context:expr, $field:ident) => {
        $context.table(std::mem::offset_of!(abi::VerbsContext, $field)).and_then(|table| {
            // SAFETY: the table reaches back to that field, which does not change once the context is open.
            unsafe { (*table).$field }
        })
    };
}
pub(super) use table_entry;

/// Declares an object that owns a handle, may be used by any thread, and destroys the handle on drop.
macro_rules! owned {
    ($(#[$doc:meta])* $name:ident, $handle:ty, $end:ident, { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        pub(in crate::rdma) struct $name {
            pub(in crate::rdma) handle: Handle<$handle>,
            $(pub(in crate::rdma) $field: $type,)*
        }

        // SAFETY: the handle is not tied to a thread, and the library serialises calls on one object.
        unsafe impl Send for $name {}
        // SAFETY: as above: calls from several threads at once are allowed on every verbs object.
        unsafe impl Sync for $name {}

        impl Drop for $name {
            fn drop(&mut self) {
                if self.handle.is_own()
                    && let Ok(functions) = functions()
                {
                    // SAFETY: the handle came from the library, is destroyed once, and no object that needs
                    // it is left: each such object holds an `Arc` of this one.
                    let failed = unsafe { (functions.$end)(self.handle.as_ptr()) };
                    debug_assert_eq!(failed, 0, stringify!($end));
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}
pub(super) use owned;

owned! {
    /// An open device.
    Context, abi::Context, close_device, {}
}

/// The capabilities of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceLimits {
    pub(super) vendor: u32,
    pub(super) part: u32,
    pub(super) ports: u8,
    pub(super) queue_max: u32,
    pub(super) completions_max: u32,
    pub(super) receives_max: u32,
    /// READs and atomics that a queue pair accepts concurrently, and that it may send.
    pub(super) reads_in_max: u8,
    pub(super) reads_out_max: u8,
    pub(super) atomics: bool,
    /// Bytes.
    pub(super) device_memory: u64,
}

impl Context {
    /// Opens the device of that name. `Ok(None)`: there is none.
    pub(super) fn open(wanted: &str) -> Result<Option<Arc<Self>>, String> {
        let opened = with_devices(|functions, devices| {
            let device = devices.iter().find(|&&device| name_of(functions, device) == wanted)?;
            // SAFETY: the device is of a live list.
            Some(Handle::new(unsafe { (functions.open_device)(*device) }))
        })?;
        match opened {
            None => Ok(None),
            Some(Ok(handle)) => Ok(Some(Arc::new(Self { handle }))),
            Some(Err(why)) => Err(format!("device {wanted} cannot be opened: {why}")),
        }
    }

    /// Queries the capabilities of the device.
    pub(super) fn limits(&self) -> io::Result<DeviceLimits> {
        let functions = functions().map_err(io::Error::other)?;
        let mut attributes = std::mem::MaybeUninit::<abi::DeviceAttr>::zeroed();
        // SAFETY: the call fills the structure, which has the header's layout.
        check_errno(unsafe { (functions.query_device)(self.handle.as_ptr(), attributes.as_mut_ptr()) })?;
        // SAFETY: plain numbers: zeroes are valid, and the call has filled them.
        let attributes = unsafe { attributes.assume_init() };
        let count = |number: c_int| u32::try_from(number).unwrap_or(0);
        let small = |number: c_int| u8::try_from(number.clamp(0, 255)).unwrap_or(0);
        Ok(DeviceLimits {
            vendor: attributes.vendor_id,
            part: attributes.vendor_part_id,
            ports: attributes.phys_port_cnt,
            queue_max: count(attributes.max_qp_wr),
            completions_max: count(attributes.max_cqe),
            receives_max: count(attributes.max_srq_wr),
            reads_in_max: small(attributes.max_qp_rd_atom),
            reads_out_max: small(attributes.max_qp_init_rd_atom),
            atomics: attributes.atomic_cap != 0,
            device_memory: self.device_memory(),
        })
    }

    /// Returns the bytes of device memory; 0 if the device or its driver has none.
    fn device_memory(&self) -> u64 {
        let Some(query) = table_entry!(self, query_device_ex) else { return 0 };
        let mut attributes = std::mem::MaybeUninit::<abi::DeviceAttrEx>::zeroed();
        let bytes = size_of::<abi::DeviceAttrEx>();
        // SAFETY: the driver fills at most the given number of bytes; a null pointer is a valid input.
        let failed = unsafe { query(self.handle.as_ptr(), ptr::null(), attributes.as_mut_ptr(), bytes) };
        // SAFETY: plain numbers: zeroes are valid, whatever the call has filled.
        let attributes = unsafe { attributes.assume_init() };
        if failed == 0 { attributes.max_dm_size } else { 0 }
    }

    /// Returns the extended table that contains the context, if it reaches back to `offset`.
    pub(super) fn table(&self, offset: usize) -> Option<*const abi::VerbsContext> {
        // SAFETY: the context is open; its fields are set at creation.
        let extended = unsafe { (*self.handle.as_ptr()).abi_compat } == abi::ABI_IS_EXTENDED;
        if !extended {
            return None;
        }
        let before = std::mem::offset_of!(abi::VerbsContext, context);
        // SAFETY: an extended context is the last field of a `VerbsContext`, at that distance from its front.
        let table = unsafe { self.handle.as_ptr().byte_sub(before) }.cast::<abi::VerbsContext>();
        // SAFETY: `size` is just before the context, in every version of the library.
        let size = unsafe { (*table).size };
        (size >= size_of::<abi::VerbsContext>() - offset).then_some(table.cast_const())
    }

    /// Queries a port, counted from 1.
    pub(super) fn port(&self, port: u8) -> io::Result<abi::PortAttr> {
        let functions = functions().map_err(io::Error::other)?;
        let mut attributes = abi::PortAttr::default();
        // SAFETY: the exported call fills the first fields of the structure, among them those that are used
        // here.
        check_errno(unsafe { (functions.query_port)(self.handle.as_ptr(), port, &raw mut attributes) })?;
        Ok(attributes)
    }

    /// Returns an entry of a port's table of addresses; `None` if it is empty.
    pub(super) fn gid(&self, port: u8, index: u32) -> Option<abi::GidEntry> {
        let functions = functions().ok()?;
        let mut entry = abi::GidEntry::default();
        let (at, bytes) = (&raw mut entry, size_of::<abi::GidEntry>());
        // SAFETY: the call fills one entry of the given size.
        let failed =
            unsafe { (functions.query_gid_ex)(self.handle.as_ptr(), port.into(), index, at, 0, bytes) };
        (failed == 0 && entry.gid != [0; 16]).then_some(entry)
    }
}

owned! {
    /// A protection domain: the memory that its queue pairs may access is registered in it.
    Domain, abi::Pd, dealloc_pd, { context: Arc<Context> }
}

impl Domain {
    /// Creates a domain.
    pub(super) fn new(context: &Arc<Context>) -> io::Result<Arc<Self>> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: the context is open.
        let handle = Handle::new(unsafe { (functions.alloc_pd)(context.handle.as_ptr()) })?;
        Ok(Arc::new(Self { handle, context: Arc::clone(context) }))
    }
}

owned! {
    /// Registered memory, on the host or on the device.
    Region, abi::Mr, dereg_mr, { base: u64, bytes: u64, _domain: Arc<Domain>, _memory: RegisteredMemory }
}

/// The memory that a region keeps alive.
#[derive(Debug)]
pub(super) enum RegisteredMemory {
    Host { _mapping: Arc<Mapping> },
    Device { _memory: DeviceMemory },
}

impl Region {
    /// Registers `bytes` of a mapping from `offset` on. Pins its pages: the limit on locked memory applies.
    pub(super) fn of_host(
        domain: &Arc<Domain>,
        mapping: &Arc<Mapping>,
        offset: u64,
        bytes: u64,
        access: u32,
    ) -> io::Result<Self> {
        let functions = functions().map_err(io::Error::other)?;
        if offset.checked_add(bytes).is_none_or(|end| end > mapping.bytes()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let base = mapping.address() + offset;
        let at = ptr::with_exposed_provenance_mut::<c_void>(base as usize);
        // SAFETY: the range stays mapped as long as it is registered: the region holds the mapping, and its
        // drop ends the registration before its fields are dropped. No reference into it exists.
        let handle = Handle::new(unsafe {
            (functions.reg_mr)(domain.handle.as_ptr(), at, bytes as usize, access.cast_signed())
        })?;
        mapping.set_registered();
        let memory = RegisteredMemory::Host { _mapping: Arc::clone(mapping) };
        Ok(Self { handle, base, bytes, _domain: Arc::clone(domain), _memory: memory })
    }

    /// Allocates `bytes` of the device's own memory, zeroed, and registers them. Their addresses count from
    /// 0.
    pub(super) fn of_card(domain: &Arc<Domain>, bytes: u64, access: u32) -> io::Result<Self> {
        let memory = DeviceMemory::take(&domain.context, bytes)?;
        let register = table_entry!(domain.context, reg_dm_mr).ok_or_else(unsupported)?;
        let (pd, dm, access) = (domain.handle.as_ptr(), memory.handle.as_ptr(), access | numbers::ZERO_BASED);
        // SAFETY: domain and device memory are of one open context; the region keeps both alive.
        let handle = Handle::new(unsafe { register(pd, dm, 0, bytes as usize, access) })?;
        let memory = RegisteredMemory::Device { _memory: memory };
        Ok(Self { handle, base: 0, bytes, _domain: Arc::clone(domain), _memory: memory })
    }

    /// Returns whether it is the device's own memory.
    pub(super) fn is_on_card(&self) -> bool {
        matches!(self._memory, RegisteredMemory::Device { .. })
    }

    /// Returns the address of its first byte, for requests.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the key for requests of other machines.
    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: the registration is alive, and its keys do not change.
        unsafe { (*self.handle.as_ptr()).rkey }
    }

    /// Returns the part of it from `offset` on, for requests of this machine.
    ///
    /// # Panics
    /// If the part exceeds the region.
    pub(super) fn span(&self, offset: u64, bytes: usize) -> Span {
        assert!(offset + bytes as u64 <= self.bytes, "a span lies within its region");
        // SAFETY: as in `remote_key`.
        let lkey = unsafe { (*self.handle.as_ptr()).lkey };
        Span(abi::Sge { addr: self.base + offset, length: bytes as u32, lkey })
    }
}

/// A part of registered memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span(pub(super) abi::Sge);

/// The device's own memory; freed on drop.
pub(super) struct DeviceMemory {
    handle: Handle<abi::Dm>,
    context: Arc<Context>,
}

// SAFETY: as for all verbs objects: not tied to a thread.
unsafe impl Send for DeviceMemory {}
// SAFETY: it is only freed, by its owner.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    fn take(context: &Arc<Context>, bytes: u64) -> io::Result<Self> {
        /// Atomics need 8 bytes, and a cache line is fetched at once.
        const LOG_ALIGN: u32 = 6;
        let allocate = table_entry!(context, alloc_dm).ok_or_else(unsupported)?;
        let mut wanted = abi::AllocDmAttr { length: bytes as usize, log_align_req: LOG_ALIGN, comp_mask: 0 };
        // SAFETY: the context is open, and the structure has the header's layout.
        let handle = Handle::new(unsafe { allocate(context.handle.as_ptr(), &raw mut wanted) })?;
        let memory = Self { handle, context: Arc::clone(context) };
        memory.clear(bytes)?;
        Ok(memory)
    }

    /// Clears the memory: the bytes of its last owner must not look like locks.
    fn clear(&self, bytes: u64) -> io::Result<()> {
        // SAFETY: the object is allocated, and its functions are set at creation.
        let copy = unsafe { (*self.handle.as_ptr()).memcpy_to_dm }.ok_or_else(unsupported)?;
        let zeroes = vec![0_u8; bytes as usize];
        // SAFETY: copies `zeroes.len()` bytes to the front of memory of the same size.
        check_errno(unsafe { copy(self.handle.as_ptr(), 0, zeroes.as_ptr().cast(), zeroes.len()) })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.handle.is_own()
            && let Some(free) = table_entry!(self.context, free_dm)
        {
            // SAFETY: it came from the same table, is freed once, and its registration ended before it: a
            // region destroys its handle before it drops its fields.
            let failed = unsafe { free(self.handle.as_ptr()) };
            debug_assert_eq!(failed, 0, "free_dm");
        }
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceMemory")
    }
}
