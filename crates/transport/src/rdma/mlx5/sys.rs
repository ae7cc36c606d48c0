//! libmlx5, loaded on demand for features that only its devices have. The unsafe half; the notes on
//! libraries, ownership and threads in [`super::super::sys`] apply here too.

use super::super::abi::sys as abi;
use super::super::sys::{Context, check_errno, library, load, symbol};
use super::{ANSWER_BYTES, QUESTION, check};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// The file name of the library.
const LIBRARY: &CStr = c"libmlx5.so.1";

library! {
    LIBRARY:
    is_supported: c"mlx5dv_is_supported", fn(*mut abi::Device) -> bool;
    general_cmd: c"mlx5dv_devx_general_cmd", fn(*mut abi::Context, *const c_void, usize, *mut c_void, usize) -> c_int;
    create_qp: c"mlx5dv_create_qp",
        fn(*mut abi::Context, *mut abi::QpInitAttrEx, *mut abi::Mlx5QpInitAttr) -> *mut abi::Qp;
    qp_ex: c"mlx5dv_qp_ex_from_ibv_qp_ex", fn(*mut abi::QpEx) -> *mut abi::Mlx5QpEx;
}

/// Returns the library's functions, loaded once.
///
/// # Errors
/// The reason why the library is missing.
pub(in crate::rdma) fn functions() -> Result<&'static Functions, String> {
    static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
    LOADED.get_or_init(Functions::load).as_ref().map_err(Clone::clone)
}

impl Context {
    /// Checks that the device has masked compare-and-swap.
    ///
    /// # Errors
    /// The reason why the device cannot execute masked compare-and-swap.
    pub(in crate::rdma) fn examine_masked_cas(&self) -> Result<(), String> {
        let mlx5 = functions()?;
        // SAFETY: the context is open; its device is set at creation.
        let device = unsafe { (*self.handle.as_ptr()).device };
        // SAFETY: the device of an open context is alive.
        if !unsafe { (mlx5.is_supported)(device) } {
            return Err("it is not an mlx5 device".to_owned());
        }
        let mut answer = [0_u8; ANSWER_BYTES];
        let (question, into) = (QUESTION.as_ptr().cast(), answer.as_mut_ptr().cast());
        // SAFETY: the context is open and of an mlx5 device; both buffers have the given lengths.
        let asked =
            unsafe { (mlx5.general_cmd)(self.handle.as_ptr(), question, QUESTION.len(), into, ANSWER_BYTES) };
        check_errno(asked).map_err(|error| format!("its atomics cannot be queried: {error}"))?;
        check(&answer).map_err(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use farwood_testkit::need;

    /// If the library is installed, it has the functions, whatever devices exist.
    #[test]
    fn the_library_has_the_required_functions() {
        let found = super::functions();
        if let Err(why) = &found {
            assert!(why.contains("is not on this machine"), "{why}");
        }
        need::met(need::MLX5_LIBRARY, found);
    }
}
