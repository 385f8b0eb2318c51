/* SPDX-License-Identifier: Apache-2.0
 * lines.h: kernels on the CPU for formulas with reductions, such as
 * data*rsqrt(mean(data^2, axis)). opgen writes the bodies and the tables; this
 * file has the loops over lines, the shapes and the sums.
 *
 * The elements of the loop belong to lines along some axes. An operand has one
 * element for each of them (TN_LINES_FULL), one for each line (TN_LINES_LINE),
 * or one for each place on the lines (TN_LINES_PLACE).
 *
 * A formula is a list of steps. A step is a reduction of a row, a value of a
 * line, or an output. Its body is that of elementwise.h: it computes one row
 * from other rows and single values. Rows are dense elements of one line in the
 * type to compute in. A row of an operand that is dense in memory is read where
 * it is; others are copied. A line of at most TN_LINES_ROW elements is one row.
 * A longer one has several, which every stage computes again.
 */
#ifndef TENON_KERNEL_LINES_H_
#define TENON_KERNEL_LINES_H_

#include "tenon/kernel/line_loops.h"

#endif /* TENON_KERNEL_LINES_H_ */
