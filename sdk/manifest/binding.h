/* SPDX-License-Identifier: Apache-2.0
 * binding.h: the contents of `binding:` as data: the library function of an
 * operator and the value of each argument. The reader of manifests checks a
 * binding and the registry calls the function.
 *
 * A binding is not part of the tables of op.h: those describe compiled plugins
 * to other builds of the host, and a binding never leaves the process that read
 * it.
 */
#ifndef TENON_MANIFEST_BINDING_H_
#define TENON_MANIFEST_BINDING_H_

#include "manifest.h"

/* Most arguments and libraries of one binding. */
enum { TNM_MAX_ARGS = 32, TNM_MAX_LIBRARIES = 8 };

/* Types in C, in the order of their names in a manifest. */
enum {
  TNM_C_I8 = 0,
  TNM_C_I16,
  TNM_C_I32,
  TNM_C_I64,
  TNM_C_U8,
  TNM_C_U16,
  TNM_C_U32,
  TNM_C_U64,
  TNM_C_F32,
  TNM_C_F64,
  TNM_C_TYPES,              /* number of the types above */
  TNM_C_CHAR = TNM_C_TYPES, /* only as `const char *`: text */
  TNM_C_POINTER,            /* pointer to one of these types */
  TNM_C_VOID
};

/* "int8" ... "double", "char". */
extern const char *const tnm_c_names[TNM_C_TYPES + 2];

/* The least and the greatest value of an integer type. The greatest value of
 * TNM_C_U64 is INT64_MAX, because the members are int64_t. */
typedef struct tnm_range {
  int64_t low;
  int64_t high;
} tnm_range;
tnm_range tnm_c_range(uint32_t c);

enum {                     /* tnm_bound_arg.pass */
       TNM_PASS_TENSOR,    /* pass the address of the elements of operand
                              `index` of `list`; NULL if the operand is absent
                              */
       TNM_PASS_INTEGER,   /* `integer` */
       TNM_PASS_NUMBER,    /* `number` */
       TNM_PASS_FLOAT,     /* float parameter `index` */
       TNM_PASS_LIST,      /* pass the address of the values of list parameter
                              `index` */
       TNM_PASS_TEXT,      /* pass the text parameter `index`; NULL if the
                              parameter is None */
       TNM_PASS_DIMENSION, /* pass the extent of dimension `axis` of operand
                              `index` of `list`; a negative axis counts from the
                              last dimension */
       TNM_PASS_SIZE,      /* pass the number of elements of operand `index` of
                              `list`; 0 if the operand is absent */
       TNM_PASS_NODE,      /* value of node `index` */
       TNM_PASS_NODES,     /* node `index` computes a list: pass the address of
                              its values, as numbers of type `element`; NULL if
                              the list is the shape of an absent operand */
       TNM_PASS_ELEMENT,   /* pass one element of operand `index` of `list` */
       TNM_PASS_CONSTANT   /* address of `constant` */
};

/* One argument of the function. */
typedef struct tnm_bound_arg {
  uint32_t c;       /* TNM_C_* */
  uint32_t element; /* element type of a pointer */
  uint32_t pass;
  uint32_t list; /* TN_OPERAND_* */
  uint32_t index;
  int32_t axis;
  int64_t integer;
  double number;
  const char *constant; /* a fixed text */
  bool by_address;      /* the argument is a number: pass the address of the
                           number, as `const element*` */
  bool each;        /* the binding has a `map`: pass the element of the operand
                       that belongs to this call of the function */
  const char *text; /* `pass` or `text` as written */
} tnm_bound_arg;

enum {                      /* tnm_binding.result */
       TNM_RESULT_NONE = 0, /* void, or ignored */
       TNM_RESULT_STATUS,   /* the function returns a status: every value except
                               `ok` is a failure */
       TNM_RESULT_OUTPUT    /* the function returns the only element of output
                               `output` */
};

/* The function of one operator. Everything is constant and lives as long as the
 * tnm_plugin that owns it. */
typedef struct tnm_binding {
  const char *const *libraries; /* names of libraries; the runtime uses the
                                   first one that it can load */
  uint32_t n_libraries;
  const char *symbol;
  uint32_t returns; /* TNM_C_* */
  uint32_t result;
  int64_t ok;
  uint32_t output;
  uint32_t map; /* index of the `map` input: the function is called once for
                   each of its elements; TN_NONE: the function is called once */
  uint32_t n_args;
  const tnm_bound_arg *args;
  const tn_node *nodes; /* nodes of the shape program that TNM_PASS_NODE
                           evaluates; `dims` gives the values of the operator's
                           dimension variables */
  uint32_t n_nodes;
  const tnm_bound_arg *dims; /* for each dimension variable of the operator, a
                                TNM_PASS_DIMENSION that gives its value; its
                                list is TN_NONE if the variable is not used */
  const tn_kernel *kernel;   /* tables of the kernel that calls the function;
                                `compute` is NULL, and the flags say whether two
                                calls may run at the same time */
  tnm_pos pos;
} tnm_binding;

#endif /* TENON_MANIFEST_BINDING_H_ */
