/* SPDX-License-Identifier: Apache-2.0
 * dnn.h: the functions of cuDNN that this plugin uses, loaded at run time. So
 * the plugin loads without cuDNN and builds without a toolkit. Types and
 * numbers are those of cudnn.h, the same in all of cuDNN 9;
 * tests/cuda/check_header.c compares them with a toolkit if there is one.
 */
#ifndef CUDNN_DNN_H_
#define CUDNN_DNN_H_

#include <stddef.h>
#include <stdint.h>

enum { /* cudnnStatus_t: the distinguished values */
       DNN_OK = 0,
       DNN_NOT_SUPPORTED = 3000, /* and the next 999: with a reason */
       DNN_NO_HOST_MEMORY = 4003,
       DNN_NO_DEVICE_MEMORY = 4004
};

enum { DNN_F32 = 0, DNN_F64 = 1, DNN_F16 = 2, DNN_BF16 = 9 };
enum { DNN_CROSS_CORRELATION = 1 };
enum {
  DNN_POINTWISE_ADD = 0,
  DNN_POINTWISE_MUL = 1,
  DNN_POINTWISE_SUB = 9,
  DNN_POINTWISE_RSQRT = 17,
  DNN_POINTWISE_RELU = 100
};
enum { DNN_NORM_BATCH = 2 };
enum { DNN_NORM_TRAINING = 1 };
enum { DNN_POOL_MEAN = 2, DNN_POOL_MAX = 3, DNN_POOL_MEAN_INSIDE = 4 };
enum { DNN_PAD_ZERO = 0, DNN_PAD_NEGATIVE_INFINITY = 1 };
enum { DNN_HEUR_FALLBACK = 2, DNN_HEUR_A = 3 };

enum { /* numerical notes: properties of an engine */
       DNN_NOTE_TENSOR_CORE = 0,
       DNN_NOTE_DOWN_CONVERT = 1,
       DNN_NOTE_REDUCED_SUMS = 2,
       DNN_NOTE_NONDETERMINISTIC = 4,
       DNN_N_NOTES = 16 /* room for those of later versions */
};

enum { /* types of attributes */
       DNN_HANDLE = 0,
       DNN_DATA_TYPE = 1,
       DNN_BOOLEAN = 2, /* a C bool */
       DNN_INT64 = 3,
       DNN_FLOAT = 4,
       DNN_DOUBLE = 5,
       DNN_POINTER = 6,
       DNN_CONVOLUTION_MODE = 7,
       DNN_HEUR_MODE = 8,
       DNN_NAN = 10,
       DNN_NOTE = 11,
       DNN_POINTWISE_MODE = 14,
       DNN_DESCRIPTOR = 15,
       DNN_RESAMPLE_MODE = 21,
       DNN_PADDING_MODE = 22,
       DNN_CHAR = 24,
       DNN_NORM_MODE = 27,
       DNN_NORM_PHASE = 28
};

enum { /* descriptors */
       DNN_POINTWISE = 0,
       DNN_CONVOLUTION = 1,
       DNN_ENGINE = 2,
       DNN_CONFIG = 3,
       DNN_HEURISTICS = 4,
       DNN_PLAN = 5,
       DNN_OP_FORWARD = 10,
       DNN_OP_WEIGHT = 11,
       DNN_OP_DATA = 12,
       DNN_OP_POINTWISE = 13,
       DNN_GRAPH = 15,
       DNN_PACK = 16,
       DNN_TENSOR = 17,
       DNN_RESAMPLE = 24,
       DNN_OP_POOL = 25,
       DNN_OP_POOL_DATA = 26,
       DNN_OP_NORM = 29,
       DNN_OP_NORM_DATA = 30,
       DNN_DEVICE = 38 /* since 9.8 */
};

enum { /* attributes */
       DNN_POINTWISE_MODE_OF = 0,
       DNN_POINTWISE_PRECISION = 1,
       DNN_POINTWISE_NAN = 2,
       DNN_CONV_PRECISION = 100,
       DNN_CONV_MODE = 101,
       DNN_CONV_DILATIONS = 102,
       DNN_CONV_STRIDES = 103,
       DNN_CONV_PADS_BEHIND = 104,
       DNN_CONV_PADS_BEFORE = 105,
       DNN_CONV_RANK = 106,
       DNN_HEURISTICS_MODE = 200,
       DNN_HEURISTICS_GRAPH = 201,
       DNN_HEURISTICS_RESULTS = 202,
       DNN_HEURISTICS_DEVICE = 204,
       DNN_CONFIG_ENGINE = 300,
       DNN_PLAN_HANDLE = 400,
       DNN_PLAN_CONFIG = 401,
       DNN_PLAN_WORKSPACE = 402,
       DNN_PLAN_DEVICE = 407,
       DNN_FORWARD_ALPHA = 700,
       DNN_FORWARD_BETA = 701,
       DNN_FORWARD_CONV = 702,
       DNN_FORWARD_W = 703,
       DNN_FORWARD_X = 704,
       DNN_FORWARD_Y = 705,
       DNN_DATA_ALPHA = 706,
       DNN_DATA_BETA = 707,
       DNN_DATA_CONV = 708,
       DNN_DATA_W = 709,
       DNN_DATA_DX = 710,
       DNN_DATA_DY = 711,
       DNN_WEIGHT_ALPHA = 712,
       DNN_WEIGHT_BETA = 713,
       DNN_WEIGHT_CONV = 714,
       DNN_WEIGHT_DW = 715,
       DNN_WEIGHT_X = 716,
       DNN_WEIGHT_DY = 717,
       DNN_POINTWISE_OF = 750,
       DNN_POINTWISE_X = 751,
       DNN_POINTWISE_B = 752,
       DNN_POINTWISE_Y = 753,
       DNN_GRAPH_HANDLE = 800,
       DNN_GRAPH_OPS = 801,
       DNN_TENSOR_ALIGNMENT = 900,
       DNN_TENSOR_TYPE = 901,
       DNN_TENSOR_DIMS = 902,
       DNN_TENSOR_STEPS = 903,
       DNN_TENSOR_ID = 906,
       DNN_TENSOR_VIRTUAL = 907,
       DNN_TENSOR_VALUE = 908,
       DNN_PACK_IDS = 1000,
       DNN_PACK_POINTERS = 1001,
       DNN_PACK_WORKSPACE = 1003,
       DNN_ENGINE_NOTES = 1303,
       DNN_RESAMPLE_MODE_OF = 1700,
       DNN_RESAMPLE_PRECISION = 1701,
       DNN_RESAMPLE_RANK = 1702,
       DNN_RESAMPLE_PADS_BEHIND = 1703,
       DNN_RESAMPLE_PADS_BEFORE = 1704,
       DNN_RESAMPLE_STRIDES = 1705,
       DNN_RESAMPLE_WINDOW = 1706,
       DNN_RESAMPLE_NAN = 1707,
       DNN_RESAMPLE_PADDING = 1708,
       DNN_POOL_X = 1710,
       DNN_POOL_Y = 1711,
       DNN_POOL_OF = 1716,
       DNN_POOL_DX = 1720,
       DNN_POOL_DY = 1721,
       DNN_POOL_DATA_OF = 1725,
       DNN_NORM_MODE_OF = 2000,
       DNN_NORM_PHASE_OF = 2001,
       DNN_NORM_X = 2002,
       DNN_NORM_MEAN = 2003,
       DNN_NORM_INVERSE = 2004,
       DNN_NORM_SCALE = 2005,
       DNN_NORM_BIAS = 2006,
       DNN_NORM_EPS = 2007,
       DNN_NORM_SHARE = 2008,
       DNN_NORM_OLD_MEAN = 2009,
       DNN_NORM_OLD_VAR = 2010,
       DNN_NORM_NEW_MEAN = 2011,
       DNN_NORM_NEW_VAR = 2012,
       DNN_NORM_Y = 2013,
       DNN_NORM_DATA_MODE = 2100,
       DNN_NORM_DATA_X = 2101,
       DNN_NORM_DATA_MEAN = 2102,
       DNN_NORM_DATA_INVERSE = 2103,
       DNN_NORM_DATA_DY = 2104,
       DNN_NORM_DATA_SCALE = 2105,
       DNN_NORM_DATA_DSCALE = 2107,
       DNN_NORM_DATA_DBIAS = 2108,
       DNN_NORM_DATA_DX = 2109,
       DNN_DEVICE_JSON = 2702
};

/* Recurrent layers, which graphs do not have. */
enum { DNN_RNN_RELU = 0, DNN_RNN_TANH = 1, DNN_RNN_LSTM = 2, DNN_RNN_GRU = 3 };
enum { DNN_RNN_STANDARD = 0 };   /* the algorithm without conditions */
enum { DNN_RNN_TWO_BIASES = 2 }; /* of the input and of h */
enum { DNN_RNN_ONE_DIRECTION = 0, DNN_RNN_TWO_DIRECTIONS = 1 };
enum { DNN_RNN_LINEAR_INPUT = 0 };
enum { DNN_RNN_STEPS_PACKED = 1 }; /* [steps, batch, elements] */
enum { DNN_RNN_INFERENCE = 0, DNN_RNN_TRAINING = 1 };
enum { DNN_RNN_ADD_WEIGHTS = 0 }; /* gradients are added */
enum { DNN_MATH_DEFAULT = 0, DNN_MATH_TENSOR_CORES = 1, DNN_MATH_FMA = 3 };

typedef struct cudnnContext *dnn_handle;
typedef void *dnn_descriptor; /* cudnnBackendDescriptor_t */
typedef struct cudnnTensorStruct *dnn_tensor;
typedef struct cudnnDropoutStruct *dnn_dropout;
typedef struct cudnnRNNStruct *dnn_rnn;
typedef struct cudnnRNNDataStruct *dnn_rnn_data;

/* field, symbol, arguments. All return a cudnnStatus_t. */
#define DNN_FUNCTIONS(X)                                               \
  X(create, cudnnCreate, (dnn_handle * out))                           \
  X(destroy, cudnnDestroy, (dnn_handle handle))                        \
  X(stream_set, cudnnSetStream, (dnn_handle handle, void *stream))     \
  X(descriptor_create, cudnnBackendCreateDescriptor,                   \
    (int type, dnn_descriptor *out))                                   \
  X(descriptor_destroy, cudnnBackendDestroyDescriptor,                 \
    (dnn_descriptor descriptor))                                       \
  X(set, cudnnBackendSetAttribute,                                     \
    (dnn_descriptor descriptor, int attribute, int type, int64_t n,    \
     const void *values))                                              \
  X(get, cudnnBackendGetAttribute,                                     \
    (dnn_descriptor descriptor, int attribute, int type, int64_t most, \
     int64_t *n, void *values))                                        \
  X(finalize, cudnnBackendFinalize, (dnn_descriptor descriptor))       \
  X(execute, cudnnBackendExecute,                                      \
    (dnn_handle handle, dnn_descriptor plan, dnn_descriptor pack))

/* Those of recurrent layers. Enumerations of cuDNN are unsigned here, as
 * compilers have them, so that check_cudnn.c can compare the types. Addresses
 * of arrays may be NULL where the comments say so. */
#define DNN_RNN_FUNCTIONS(X)                                                   \
  X(tensor_create, cudnnCreateTensorDescriptor, (dnn_tensor * out))            \
  X(tensor_destroy, cudnnDestroyTensorDescriptor, (dnn_tensor tensor))         \
  X(tensor_set, cudnnSetTensorNdDescriptor,                                    \
    (dnn_tensor tensor, unsigned type, int n, const int *dims,                 \
     const int *steps))                                                        \
  X(dropout_create, cudnnCreateDropoutDescriptor, (dnn_dropout * out))         \
  X(dropout_destroy, cudnnDestroyDropoutDescriptor, (dnn_dropout dropout))     \
  X(dropout_set, cudnnSetDropoutDescriptor, /* no states if p is 0 */          \
    (dnn_dropout dropout, dnn_handle handle, float p, void *states,            \
     size_t bytes, unsigned long long seed))                                   \
  X(rnn_create, cudnnCreateRNNDescriptor, (dnn_rnn * out))                     \
  X(rnn_destroy, cudnnDestroyRNNDescriptor, (dnn_rnn rnn))                     \
  X(rnn_set, cudnnSetRNNDescriptor_v8,                                         \
    (dnn_rnn rnn, unsigned algorithm, unsigned kind, unsigned biases,          \
     unsigned directions, unsigned input_mode, unsigned type,                  \
     unsigned math_type, unsigned math, int32_t inputs, int32_t units,         \
     int32_t projected, int32_t layers, dnn_dropout dropout, uint32_t flags))  \
  X(rnn_data_create, cudnnCreateRNNDataDescriptor, (dnn_rnn_data * out))       \
  X(rnn_data_destroy, cudnnDestroyRNNDataDescriptor, (dnn_rnn_data data))      \
  X(rnn_data_set, cudnnSetRNNDataDescriptor,                                   \
    (dnn_rnn_data data, unsigned type, unsigned layout, int steps, int batch,  \
     int elements, const int *lengths, void *padding))                         \
  X(rnn_weights_size, cudnnGetRNNWeightSpaceSize,                              \
    (dnn_handle handle, dnn_rnn rnn, size_t * bytes))                          \
  X(rnn_weights_find, cudnnGetRNNWeightParams, /* from NULL: distances */      \
    (dnn_handle handle, dnn_rnn rnn, int32_t layer, size_t bytes,              \
     const void *weights, int32_t which, dnn_tensor matrix, void **matrix_at,  \
     dnn_tensor bias, void **bias_at))                                         \
  X(rnn_spaces, cudnnGetRNNTempSpaceSizes,                                     \
    (dnn_handle handle, dnn_rnn rnn, unsigned mode, dnn_rnn_data x_of,         \
     size_t *work, size_t *reserve))                                           \
  X(rnn_forward, cudnnRNNForward, /* lengths, hx, hy, cx, cy: NULL */          \
    (dnn_handle handle, dnn_rnn rnn, unsigned mode, const int32_t *lengths,    \
     dnn_rnn_data x_of, const void *x, dnn_rnn_data y_of, void *y,             \
     dnn_tensor h_of, const void *hx, void *hy, dnn_tensor c_of,               \
     const void *cx, void *cy, size_t weights_bytes, const void *weights,      \
     size_t work_bytes, void *work, size_t reserve_bytes, void *reserve))      \
  X(rnn_back, cudnnRNNBackwardData_v8, /* as above, dhy, dhx, dcy, dcx */      \
    (dnn_handle handle, dnn_rnn rnn, const int32_t *lengths,                   \
     dnn_rnn_data y_of, const void *y, const void *dy, dnn_rnn_data x_of,      \
     void *dx, dnn_tensor h_of, const void *hx, const void *dhy, void *dhx,    \
     dnn_tensor c_of, const void *cx, const void *dcy, void *dcx,              \
     size_t weights_bytes, const void *weights, size_t work_bytes, void *work, \
     size_t reserve_bytes, void *reserve))                                     \
  X(rnn_weights_back, cudnnRNNBackwardWeights_v8, /* lengths, hx */            \
    (dnn_handle handle, dnn_rnn rnn, unsigned add, const int32_t *lengths,     \
     dnn_rnn_data x_of, const void *x, dnn_tensor h_of, const void *hx,        \
     dnn_rnn_data y_of, const void *y, size_t weights_bytes, void *dweights,   \
     size_t work_bytes, void *work, size_t reserve_bytes, void *reserve))

typedef struct dnn_library {
  void *file;
  char name[32];                    /* "cuDNN 9.5.1" */
  const char *(*say)(int status);   /* cudnnGetErrorString */
  void (*say_more)(char *, size_t); /* cudnnGetLastErrorString: the thread's */
#define DNN_FIELD(field, symbol, arguments) int(*field) arguments;
  DNN_FUNCTIONS(DNN_FIELD)
  DNN_RNN_FUNCTIONS(DNN_FIELD)
#undef DNN_FIELD
} dnn_library;

/* Opens the first library of a list that ends with NULL (sonames, or paths),
 * and finds all functions: 1, or 0 with a sentence in `why` that states the
 * found and the required version. [load] */
int dnn_open(dnn_library *library, const char *const *names, char why[240]);

/* [load] */
void dnn_close(dnn_library *library);

/* Names of cuDNN on Linux. */
extern const char *const dnn_names[];

#endif /* CUDNN_DNN_H_ */
