import jupyter from '@jupyter/eslint-plugin';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['lib', 'node_modules', 'coverage', '**/*.js', '**/*.mjs', 'src/api/schemas.ts'] },
  { plugins: { jupyter } },
  jupyter.configs.recommended,
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.test.json' } },
    rules: {
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-namespace': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      // Lumino's signals take a method and its `this` as two arguments.
      '@typescript-eslint/unbound-method': 'off',
      // Activation needs little; the content of the panel is loaded when it is first shown.
      'jupyter/prefer-lazy-imports': 'off',
      'no-console': 'error',
      'max-lines': ['error', 300],
      eqeqeq: 'error'
    }
  }
);
