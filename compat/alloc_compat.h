/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * 7.0: allocation of objects by their type, with GFP_KERNEL by default
 */
#ifndef IPOIB_ALLOC_COMPAT_H
#define IPOIB_ALLOC_COMPAT_H

#define __ipoib_gfp(first, gfp, ...)	gfp
#define ipoib_gfp(...)	__ipoib_gfp(, ##__VA_ARGS__, GFP_KERNEL)

#define kmalloc_flex(obj, member, count, ...) \
	kmalloc(struct_size((typeof(obj) *)NULL, member, count), \
		ipoib_gfp(__VA_ARGS__))
#define kzalloc_flex(obj, member, count, ...) \
	kzalloc(struct_size((typeof(obj) *)NULL, member, count), \
		ipoib_gfp(__VA_ARGS__))
#define kvzalloc_flex(obj, member, count, ...) \
	kvzalloc(struct_size((typeof(obj) *)NULL, member, count), \
		 ipoib_gfp(__VA_ARGS__))
#define kzalloc_obj(obj, ...)	kzalloc(sizeof(obj), ipoib_gfp(__VA_ARGS__))
#define kvzalloc_obj(obj, ...)	kvzalloc(sizeof(obj), ipoib_gfp(__VA_ARGS__))
#define kvzalloc_objs(obj, count, ...) \
	kvcalloc(count, sizeof(obj), ipoib_gfp(__VA_ARGS__))

#endif /* IPOIB_ALLOC_COMPAT_H */
