//! The type of keys or values: Python objects to encoded bytes and back.

use crate::errors::wrong_type;
use farwood::types::{Encode, InlineBytes, Kind, Width};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString};

/// The type of the keys or of the values of an index, as Python sees it.
pub(crate) struct Column {
    /// `key` or `value`, for exceptions.
    pub(crate) what: &'static str,
    pub(crate) kind: Kind,
    pub(crate) width: Width,
    /// Functions from and to the objects of the program: JSON, dates, structures.
    pub(crate) convert: Option<Convert>,
}

/// Functions between the objects of the program and those of the column's kind.
pub(crate) struct Convert {
    pub(crate) to_stored: Py<PyAny>,
    pub(crate) from_stored: Py<PyAny>,
}

impl Column {
    /// Encodes an object of the program.
    #[inline]
    pub(crate) fn encode(&self, object: &Bound<'_, PyAny>) -> PyResult<InlineBytes> {
        match &self.convert {
            None => self.encode_stored(object),
            Some(convert) => self.encode_stored(&convert.to_stored.bind(object.py()).call1((object,))?),
        }
    }

    fn encode_stored(&self, object: &Bound<'_, PyAny>) -> PyResult<InlineBytes> {
        let encoded = match self.kind {
            Kind::Text => {
                let text = object.cast::<PyString>().map_err(|_| self.wrong("a str", object))?;
                Encode::<String>::encode(text.to_cow()?.as_ref(), self.width)
            }
            Kind::I64 => {
                let number: i64 = self.integer(object)?;
                return Ok(InlineBytes::copy(&number.encode(self.width).map_err(unfit)?));
            }
            Kind::U64 => {
                let number: u64 = self.integer(object)?;
                return Ok(InlineBytes::copy(&number.encode(self.width).map_err(unfit)?));
            }
            Kind::F64 => {
                let number = self.float(self.exact_float(object)?);
                return Ok(InlineBytes::copy(
                    Encode::<f64>::encode(&number, self.width).map_err(unfit)?.as_ref(),
                ));
            }
            Kind::Bool => {
                let truth = object.cast::<PyBool>().map_err(|_| self.wrong("a bool", object))?.is_true();
                return Ok(InlineBytes::copy(
                    Encode::<bool>::encode(&truth, self.width).map_err(unfit)?.as_ref(),
                ));
            }
            _ => {
                let bytes: &[u8] = object.extract().map_err(|_| self.wrong("bytes", object))?;
                Encode::<Vec<u8>>::encode(bytes, self.width).map(InlineBytes::copy)
            }
        };
        encoded.map_err(|why| PyValueError::new_err(format!("a {} {why}", self.what)))
    }

    /// A float, or an integer that a float holds exactly.
    fn exact_float(&self, object: &Bound<'_, PyAny>) -> PyResult<f64> {
        let number: f64 = object.extract().map_err(|_| self.wrong("a float", object))?;
        if object.is_instance_of::<PyInt>() && !object.eq(number)? {
            let text = format!("{object} does not fit: a float cannot hold it exactly");
            return Err(PyOverflowError::new_err(text));
        }
        Ok(number)
    }

    /// As keys, `-0.0` and `0.0` are equal in Python, but their bytes differ.
    #[inline]
    pub(crate) fn float(&self, number: f64) -> f64 {
        if self.what == "key" { number + 0.0 } else { number }
    }

    fn integer<'a, 'py, N: FromPyObject<'a, 'py>>(&self, object: &'a Bound<'py, PyAny>) -> PyResult<N> {
        object.extract().map_err(|_: N::Error| {
            if !object.is_instance_of::<PyInt>() {
                return self.wrong("an int", object);
            }
            self.overflow(object)
        })
    }

    /// An integer that does not fit.
    pub(crate) fn overflow(&self, number: impl std::fmt::Display) -> PyErr {
        let limits = if self.kind == Kind::U64 { "0 to 2**64 - 1" } else { "-2**63 to 2**63 - 1" };
        PyOverflowError::new_err(format!("{number} does not fit: a {} of this index is {limits}", self.what))
    }

    fn wrong(&self, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
        wrong_type(self.what, expected, found)
    }

    /// The object of the program for encoded bytes.
    #[inline]
    pub(crate) fn decode<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.converted(self.decode_stored(py, bytes)?)
    }

    /// The object of the program for one of the column's kind.
    #[inline]
    pub(crate) fn converted<'py>(&self, stored: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match &self.convert {
            None => Ok(stored),
            Some(convert) => convert.from_stored.bind(stored.py()).call1((stored,)),
        }
    }

    /// The object of the column's kind for encoded bytes.
    pub(crate) fn decode_stored<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        use farwood::types::Codec;
        Ok(match self.kind {
            Kind::Text => String::decode(bytes).map_err(unfit)?.into_pyobject(py)?.into_any(),
            Kind::I64 => i64::decode(bytes).map_err(unfit)?.into_pyobject(py)?.into_any(),
            Kind::U64 => u64::decode(bytes).map_err(unfit)?.into_pyobject(py)?.into_any(),
            Kind::F64 => f64::decode(bytes).map_err(unfit)?.into_pyobject(py)?.into_any(),
            Kind::Bool => bool::decode(bytes).map_err(unfit)?.into_pyobject(py)?.to_owned().into_any(),
            _ => PyBytes::new(py, bytes).into_any(),
        })
    }

    /// The encoded start of a key, for scans of a prefix.
    pub(crate) fn encode_prefix(&self, object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        match self.kind {
            Kind::Text => Ok(object.extract::<String>()?.into_bytes()),
            Kind::Bytes => Ok(object.extract::<Vec<u8>>()?),
            _ => Err(PyValueError::new_err("only keys of str and bytes have prefixes; give a range")),
        }
    }

    /// Whether a key or value has exactly 8 bytes, and a NumPy type of 8 bytes has the same values.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.kind, Kind::I64 | Kind::U64 | Kind::F64)
    }
}

/// The name of a kind in Python.
pub(crate) fn kind_name(kind: Kind) -> String {
    match kind {
        Kind::Text => "str".to_owned(),
        Kind::Bytes => "bytes".to_owned(),
        Kind::I64 => "int".to_owned(),
        Kind::U64 => "uint".to_owned(),
        Kind::F64 => "float".to_owned(),
        other => other.to_string(),
    }
}

/// A key or value that does not fit.
pub(crate) fn unfit(why: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(why.to_string())
}
